package asynqjobs

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups"
)

// The fields of a task's hash that asynq does not know; jobs.lua says what they mean.
const (
	fieldLost  = "gresil-lost"
	fieldWaits = "gresil-waits"
)

// enter waits until the job can run. A job whose last delivery ended with its process runs alone, so that only it is charged if it ends
// this process too; others run beside each other. A job that has waited for mostAlone runs beside the others, since one of them can be
// waiting for it. While a job waits, the end of the process is not charged to it. The caller calls leave
// when the job has run.
func (l *line) enter(ctx context.Context, e *groups.Entry, lost bool) (leave func(), err error) {
	stage, client, key, places := l.engine.stage, l.engine.redis, prefix(l.queue)+"t:"+e.ID, int64(1)
	if lost {
		if e.Losses, err = client.HGet(ctx, key, fieldLost).Int(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, failed(ctx, err)
		}
	}
	if e.Losses > 0 || e.Meta[groups.Suspect] != "" {
		places = math.MaxInt64
	}
	leave = func() { stage.Release(places) }
	if stage.TryAcquire(places) {
		return leave, nil
	}
	if err = l.engine.send(ctx, func() error { return client.HSet(ctx, key, fieldWaits, 1).Err() }); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, mostAlone)
	defer cancel()
	defer context.AfterFunc(l.stopping, cancel)() //nolint:contextcheck // it ends with Run
	if stage.Acquire(waiting, places) != nil {
		leave, err = func() {}, l.stopping.Err()
	}
	if err = cmp.Or(l.engine.send(ctx, func() error { return client.HDel(ctx, key, fieldWaits).Err() }), err); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// forgive resets the losses of a job whose attempt has ended without ending the process. If that fails, they keep counting.
func (l *line) forgive(ctx context.Context, e *groups.Entry) {
	if e.Losses > 0 && ctx.Err() == nil {
		_ = l.engine.send(ctx, func() error { return l.engine.redis.HDel(ctx, prefix(l.queue)+"t:"+e.ID, fieldLost).Err() })
	}
}

package asynqjobs

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups"
)

// The fields of the hash of a task that asynq does not know; jobs.lua says what they are.
const (
	fieldLost  = "gresil-lost"
	fieldWaits = "gresil-waits"
)

// enter waits until the job can run: beside others of the process, or alone if its last delivery ended with its process, so that only it
// is charged if it ends this process too. leave ends that. While it waits, the end of the process is not charged to it.
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
		leave, err = func() {}, l.stopping.Err() // otherwise it runs beside others: one of them can wait for it
	}
	if err = cmp.Or(l.engine.send(ctx, func() error { return client.HDel(ctx, key, fieldWaits).Err() }), err); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// forgive forgets the losses of a job whose attempt has ended with the process alive. If it fails, they count longer.
func (l *line) forgive(ctx context.Context, e *groups.Entry) {
	if e.Losses > 0 && ctx.Err() == nil {
		_ = l.engine.send(ctx, func() error { return l.engine.redis.HDel(ctx, prefix(l.queue)+"t:"+e.ID, fieldLost).Err() })
	}
}

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

var errAlone = errors.New("asynqjobs: another job must run alone")

// enter waits until the job can run. The caller calls leave when it has run. A job whose last delivery ended with its process is a suspect:
// it runs alone, so that only it is charged if it ends this process too; others run beside each other. A job that has waited for mostAlone
// runs beside the others, since one of them can be waiting for it. While another suspect runs, a suspect goes back to its queue, and
// the end of the process is charged to it only in the moment before that. While a job waits here, it is not charged to it. When the process
// stops, the job does not run.
func (l *line) enter(ctx context.Context, e *groups.Entry, lost bool) (leave func(), err error) {
	if err = l.stopping.Err(); err != nil {
		return nil, err
	}
	client, key := l.engine.redis, prefix(l.queue)+"t:"+e.ID
	if lost {
		if e.Losses, err = client.HGet(ctx, key, fieldLost).Int(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, failed(ctx, err)
		}
	}
	stage, suspects, share := l.engine.stage, l.engine.suspects, int64(1)
	suspect := e.Losses > 0 || e.Meta[groups.Suspect] != ""
	if suspect {
		if share = math.MaxInt64; !suspects.TryAcquire(1) {
			return nil, errAlone
		}
	}
	leave = func() {
		if stage.Release(share); suspect {
			suspects.Release(1)
		}
	}
	if stage.TryAcquire(share) {
		return leave, nil
	}
	if _, err = send(ctx, l.engine, func() (int64, error) { return client.HSet(ctx, key, fieldWaits, 1).Result() }); err != nil {
		share = 0
		leave()
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, l.engine.mostAlone)
	defer cancel()
	defer context.AfterFunc(l.stopping, cancel)() //nolint:contextcheck // it ends with Run
	if stage.Acquire(waiting, share) != nil {
		share, err = 0, l.stopping.Err()
	}
	if err = cmp.Or(l.forget(ctx, e.ID, fieldWaits), err); err != nil {
		leave()
	}
	return leave, err
}

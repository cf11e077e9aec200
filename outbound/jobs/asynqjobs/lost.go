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

// enter waits until the job can run, and returns its share of the stage, which the caller releases when the job has run. A job whose last
// delivery ended with its process runs alone, so that only it is charged if it ends this process too; others run beside each other. A job
// that has waited for mostAlone runs beside the others, since one of them can be waiting for it. While a job waits, the end of the process
// is not charged to it. When the process stops, the job does not run.
func (l *line) enter(ctx context.Context, e *groups.Entry, lost bool) (share int64, err error) {
	if err = l.stopping.Err(); err != nil {
		return 0, err
	}
	stage, client, key := l.engine.stage, l.engine.redis, prefix(l.queue)+"t:"+e.ID
	if lost {
		if e.Losses, err = client.HGet(ctx, key, fieldLost).Int(); err != nil && !errors.Is(err, redis.Nil) {
			return 0, failed(ctx, err)
		}
	}
	share = 1
	if e.Losses > 0 || e.Meta[groups.Suspect] != "" {
		share = math.MaxInt64
	}
	if stage.TryAcquire(share) {
		return share, nil
	}
	if _, err = send(ctx, l.engine, func() (int64, error) { return client.HSet(ctx, key, fieldWaits, 1).Result() }); err != nil {
		return 0, err
	}
	waiting, cancel := context.WithTimeout(ctx, mostAlone)
	defer cancel()
	defer context.AfterFunc(l.stopping, cancel)() //nolint:contextcheck // it ends with Run
	if stage.Acquire(waiting, share) != nil {
		share, err = 0, l.stopping.Err()
	}
	if err = cmp.Or(l.forget(ctx, e.ID, fieldWaits), err); err != nil {
		stage.Release(share)
	}
	return share, err
}

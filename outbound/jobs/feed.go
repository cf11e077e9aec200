package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/gresil/gresil/core"
)

const (
	feedEvery = 250 * time.Millisecond // the time between two looks at a queue
	feedSoon  = time.Minute            // before NotBefore
	feedFresh = 10 * time.Second       // for which a look counts
	feedLeast = 50                     // jobs ahead
	feedMost  = 50_000
)

// Feed enqueues the jobs of an iterator a little ahead of their execution, so that a campaign of millions of jobs takes
// little room in the engine. It returns the number of jobs that it has enqueued, and of those that it has skipped because
// their IDs were in use. While the engine fails or is full, it waits. The error is the cause of ctx, that of a job that is
// not valid, or [ErrClosed].
//
// After a restart a campaign can be fed again from its beginning, if its jobs have IDs and their Retain is long enough.
// Jobs with a NotBefore should be in its order.
func (r *Runner) Feed(ctx context.Context, jobs iter.Seq[Job]) (fed, skipped int, err error) {
	for job := range jobs {
		switch added, err := r.feed(ctx, job); {
		case err != nil:
			return fed, skipped, err
		case added:
			fed++
		default:
			skipped++
		}
	}
	return fed, skipped, nil
}

// feed enqueues a job, and reports whether that was necessary.
func (r *Runner) feed(ctx context.Context, job Job) (added bool, err error) {
	if err = cmp.Or(context.Cause(ctx), job.validate()); err == nil {
		err = r.wait(ctx, time.Until(job.NotBefore.Add(-feedSoon)))
	}
	if err == nil {
		err = r.turn(ctx, job.Queue)
	}
	mine := job.ID == "" // whether the job that has its ID is this one
	if mine {
		job.ID = rand.Text() // the same in each try: a reply can be lost
	}
	for ; err == nil; err = r.wait(ctx, feedEvery) {
		_, err := r.Enqueue(ctx, job)
		switch {
		case errors.Is(err, ErrClosed), errors.Is(err, core.ErrConfig):
			return false, err
		case err == nil, errors.Is(err, ErrExists):
			r.up.EngineIs(ctx, nil)
			return err == nil || mine, nil
		case errors.Is(err, ErrFull):
			r.up.EngineIs(ctx, nil)
		default:
			mine = true // probably: the try may have succeeded
			r.up.EngineIs(ctx, err, slog.String("queue", job.Queue))
		}
	}
	return false, err
}

// wait waits for a time, unless ctx ends, or the runner is closed.
func (r *Runner) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	_, err := receive(ctx, r, timer.C)
	return err
}

func receive[T any](ctx context.Context, r *Runner, from <-chan T) (v T, err error) {
	select {
	case v = <-from:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-r.up.Closing:
		err = ErrClosed
	}
	return v, err
}

// A room is how many jobs can be fed to a queue until the next look at it. Campaigns take turns, one job each: the room is in a channel,
// which serves those that wait in the order of their arrival.
type room struct {
	left  int
	ahead int // jobs that are to wait in the queue
	at    time.Time
}

// turn waits for a turn, and until the queue has room. Some jobs are kept ahead of the handlers: twice as many as before when most of
// them have begun between two looks, so that the queue does not run empty, and slowly fewer when few have.
func (r *Runner) turn(ctx context.Context, queue string) error {
	lane := r.lane(queue)
	now, err := receive(ctx, r, lane)
	if err != nil {
		return err
	}
	defer func() { lane <- now }()
	for age := time.Since(now.at); now.left == 0 || age > feedFresh; age = 0 {
		if err = r.wait(ctx, time.Until(now.at.Add(feedEvery))); err != nil {
			return err
		}
		now.at, now.left = time.Now(), 0
		all, err := r.queue.Inspect(ctx, queue)
		if r.up.EngineIs(ctx, err, slog.String("queue", queue)); err != nil {
			continue
		}
		waiting := all[0].Pending + all[0].Soon
		switch {
		case age > feedFresh: // nobody has fed the queue for a while
			now.ahead = feedLeast
		case waiting < now.ahead/4:
			now.ahead = min(2*now.ahead, feedMost)
		case waiting > now.ahead-now.ahead/16:
			now.ahead = max(now.ahead-now.ahead/16, feedLeast)
		}
		now.left = max(0, now.ahead-waiting)
	}
	now.left--
	return nil
}

// lane returns the room of a queue.
func (r *Runner) lane(queue string) chan room {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lanes[queue] == nil {
		r.lanes[queue] = make(chan room, 1)
		r.lanes[queue] <- room{ahead: feedLeast}
	}
	return r.lanes[queue]
}

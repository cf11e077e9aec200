package jobs

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"time"

	"github.com/gresil/gresil/internal/groups"
)

const (
	feedEvery = 250 * time.Millisecond // the time between two looks at a queue
	feedSoon  = time.Minute            // how long before NotBefore a job is enqueued
	feedLeast = 50                     // jobs to keep waiting in a queue, at least
	feedMost  = 50_000
)

// Feed enqueues the jobs of an iterator a little ahead of their execution, so that a campaign of millions of jobs takes
// little space in the engine. It returns the number of jobs that it has enqueued, and the number of those that it has
// skipped because their IDs were in use. While the engine fails or is full, it waits. The error is the cause of ctx,
// that of a job that is not valid, or [ErrClosed].
//
// After a restart a campaign can be fed again from its beginning, if its jobs have IDs and their Retain is long enough.
// Jobs with a NotBefore should be in the order of these times.
func (r *Runner) Feed(ctx context.Context, jobs iter.Seq[Job]) (fed, skipped int, err error) {
	f := &feeding{Runner: r}
	defer f.leave()
	for job := range jobs {
		switch added, err := f.feed(ctx, job); {
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

// A feeding is a call of Feed.
type feeding struct{ *Runner }

// feed enqueues a job. It reports whether it was added; if not, its ID was in use.
func (f *feeding) feed(ctx context.Context, job Job) (added bool, err error) {
	if err = cmp.Or(context.Cause(ctx), job.validate()); err == nil {
		err = f.wait(ctx, job.NotBefore.Add(-feedSoon))
	}
	if err == nil {
		err = f.turn(ctx, job.Queue)
	}
	mine := job.ID == "" // whether an existing job with the ID is this one
	for ; err == nil; err = f.wait(ctx, time.Now().Add(feedEvery)) {
		id, err := f.Enqueue(ctx, job)
		job.ID = id // the same in each try, since a reply can be lost
		switch {
		case errors.Is(err, ErrClosed):
			return false, err
		case err == nil, errors.Is(err, ErrExists):
			f.up.EngineIs(ctx, nil)
			return err == nil || mine, nil
		case errors.Is(err, ErrFull):
			f.up.EngineIs(ctx, nil)
		default:
			mine = true // probably, since the try may have succeeded
			f.up.EngineIs(ctx, err, slog.String("queue", job.Queue))
		}
	}
	return false, err
}

// wait waits until a time, unless ctx ends, or the runner is closed.
func (r *Runner) wait(ctx context.Context, until time.Time) error {
	groups.Sleep(ctx, time.Until(until), r.up.Closing)
	if r.up.Closed() {
		return ErrClosed
	}
	return context.Cause(ctx)
}

// A lane is what the campaigns that feed one queue share. Runner.mu guards it.
type lane struct {
	turns map[*feeding]int // that each campaign has
	at    time.Time        // of the last look at the queue
	ahead int              // jobs to keep waiting in the queue
}

// leave leaves all lanes. A lane ends with its last campaign.
func (f *feeding) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.lanes, func(_ string, l *lane) bool {
		delete(l.turns, f)
		return len(l.turns) == 0
	})
}

// turn waits for a turn to enqueue a job. One of the campaigns looks at the queue for all of them.
func (f *feeding) turn(ctx context.Context, queue string) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lanes[queue]
	if l == nil {
		l = &lane{turns: map[*feeding]int{}, ahead: feedLeast}
		f.lanes[queue] = l
	}
	for l.turns[f] == 0 && err == nil {
		l.turns[f] = 0 // it takes part
		next := l.at.Add(feedEvery)
		due := !time.Now().Before(next)
		if due {
			l.at = time.Now()
		}
		f.mu.Unlock()
		if due {
			f.look(ctx, queue, l)
		} else {
			err = f.wait(ctx, next)
		}
		f.mu.Lock()
	}
	l.turns[f] = max(0, l.turns[f]-1)
	return err
}

// look reads the counts of the queue, and gives turns, the same number to each campaign, so that some jobs always wait for the handlers. If
// most of them have begun since the last look, it keeps twice as many from then on, so that the queue does not run empty; if few have,
// slowly fewer.
func (f *feeding) look(ctx context.Context, queue string, l *lane) {
	all, err := f.queue.Inspect(ctx, queue)
	if f.up.EngineIs(ctx, err, slog.String("queue", queue)); err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := all[0].Pending + all[0].Soon
	switch {
	case waiting < l.ahead/4:
		l.ahead = min(2*l.ahead, feedMost)
	case waiting > l.ahead-l.ahead/16:
		l.ahead = max(l.ahead-l.ahead/16, feedLeast)
	}
	n := len(l.turns)
	for o, left := range l.turns {
		l.turns[o] = min(left+(max(0, l.ahead-waiting)+n-1)/n, 1+l.ahead/n) // a slow campaign loses its older turns
	}
}

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
	f := feeding{Runner: r, lane: &lane{}}
	defer f.enter("")
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
type feeding struct {
	*Runner

	queue string // of its last job
	lane  *lane  // of the queue
	taken int    // turns taken so far, counted like lane.given
}

// feed enqueues a job. It reports whether it was added; if not, its ID was in use.
func (f *feeding) feed(ctx context.Context, job Job) (added bool, err error) {
	if err = cmp.Or(context.Cause(ctx), job.validate()); err == nil {
		err = f.wait(ctx, job.NotBefore.Add(-feedSoon))
	}
	if err == nil && f.queue != job.Queue {
		f.enter(job.Queue)
	}
	if err == nil {
		err = f.turn(ctx)
	}
	mine := job.ID == "" // whether an existing job with the ID is this one
	if mine {
		job.ID = rand.Text() // the same in each try, since a reply can be lost
	}
	for ; err == nil; err = f.wait(ctx, time.Now().Add(feedEvery)) {
		_, err := f.Enqueue(ctx, job)
		switch {
		case errors.Is(err, ErrClosed), errors.Is(err, core.ErrConfig):
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
func (f *feeding) wait(ctx context.Context, until time.Time) error {
	d := time.Until(until)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.up.Closing:
		return ErrClosed
	}
}

// A lane gives turns to the campaigns that feed one queue: after each look at the queue, the same number to each. Runner.mu guards its
// fields.
type lane struct {
	feedings int
	at       time.Time // of the last look
	given    int       // turns given to each so far
	ahead    int       // how many jobs to keep waiting in the queue
}

// enter leaves the present lane, and enters that of a queue unless queue is "". A lane ends with its last campaign. A campaign gets no
// turns of earlier looks.
func (f *feeding) enter(queue string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lane.feedings--; f.lane.feedings == 0 {
		delete(f.lanes, f.queue)
	}
	if queue == "" {
		return
	}
	if f.lanes[queue] == nil {
		f.lanes[queue] = &lane{ahead: feedLeast}
	}
	f.queue, f.lane = queue, f.lanes[queue]
	f.taken = f.lane.given
	f.lane.feedings++
}

// turn waits for a turn.
func (f *feeding) turn(ctx context.Context) error {
	for {
		f.mu.Lock()
		l := f.lane
		f.taken = max(f.taken, l.given-1-l.ahead/l.feedings) // a slow campaign loses its older turns
		if f.taken < l.given {
			f.taken++
			f.mu.Unlock()
			return nil
		}
		due := time.Since(l.at) >= feedEvery
		if due {
			l.at = time.Now()
		}
		next := l.at.Add(feedEvery)
		f.mu.Unlock()
		if due && f.look(ctx) {
			continue
		}
		if err := f.wait(ctx, next); err != nil {
			return err
		}
	}
}

// look reads the counts of the queue and gives turns, so that some jobs always wait for the handlers. If most of them have begun since the
// last look, it keeps twice as many from then on, so that the queue does not run empty; if few have, slowly fewer. It reports whether the
// queue could be read.
func (f *feeding) look(ctx context.Context) bool {
	all, err := f.Runner.queue.Inspect(ctx, f.queue)
	if f.up.EngineIs(ctx, err, slog.String("queue", f.queue)); err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l, waiting := f.lane, all[0].Pending+all[0].Soon
	switch {
	case waiting < l.ahead/4:
		l.ahead = min(2*l.ahead, feedMost)
	case waiting > l.ahead-l.ahead/16:
		l.ahead = max(l.ahead-l.ahead/16, feedLeast)
	}
	l.given += (max(0, l.ahead-waiting) + l.feedings - 1) / l.feedings
	return true
}

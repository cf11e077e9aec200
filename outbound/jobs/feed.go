package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
)

const (
	feedEvery = 250 * time.Millisecond // the time between two looks at a queue
	feedLeast = 50                     // jobs ahead
	feedMost  = 50_000
)

// Feed enqueues the jobs of a campaign a little ahead of their execution: in each queue there are as
// many jobs as its handlers, in all processes, have lately processed within Config.LookAhead, from
// 50 to 50,000. A job whose NotBefore is later than LookAhead is enqueued when it is not, so the
// jobs should be in the order of NotBefore. Campaigns that are fed at the same time take turns.
//
// Feed returns the number of jobs that it has enqueued, and the number of those that it has skipped
// because their IDs were in use. It ends when all jobs are enqueued, or with the cause of ctx when that
// ends: cancel ctx, and then call Cancel, to cancel a campaign. While the engine fails or is full, Feed
// waits. It also ends with the error of a job that is not valid, or with [ErrClosed].
//
// A campaign with IDs of its own can be fed again from its beginning after a restart, if Retain is
// longer than the restart takes: jobs that wait, run or are done are skipped, and those that have failed
// are enqueued again.
func (r *Runner) Feed(ctx context.Context, jobs iter.Seq[Job]) (fed, skipped int, err error) {
	r.counters.feeding.Add(1)
	defer r.fedOne()
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

// fedOne ends a call of Feed; the last one forgets the lanes.
func (r *Runner) fedOne() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counters.feeding.Add(-1) == 0 {
		clear(r.lanes)
	}
}

// feed enqueues a job, and reports whether that was necessary.
func (r *Runner) feed(ctx context.Context, job Job) (added bool, err error) {
	if err := job.validate(); err != nil {
		return false, err
	}
	ahead := cmp.Or(r.life.Load().Config.LookAhead, defaultLookAhead)
	if err := r.sleep(ctx, time.Until(job.NotBefore.Add(-ahead))); err != nil {
		return false, err
	}
	if err := r.lane(job.Queue).turn(ctx, r, job.Queue); err != nil {
		return false, err
	}
	mine := job.ID == "" // whether the job that has its ID is this one
	if mine {
		job.ID = rand.Text() // the same in each try: a reply can be lost
	}
	for {
		_, err := r.Enqueue(ctx, job)
		switch {
		case err == nil, errors.Is(err, ErrExists):
			r.engineExecutes(ctx)
			return err == nil || mine, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case errors.Is(err, ErrClosed), errors.Is(err, core.ErrConfig):
			return false, err
		case errors.Is(err, ErrFull):
			r.engineExecutes(ctx)
		default:
			mine = true // probably: the try may have succeeded
			r.engineFails(ctx, Event{Queue: job.Queue, Job: job, Err: err})
		}
		if err := r.sleep(ctx, feedEvery); err != nil {
			return false, err
		}
	}
}

// sleep waits, unless the runner is closed or ctx ends.
func (r *Runner) sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-r.closed:
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.isClosed():
		return ErrClosed
	}
	return nil
}

// Cancel deletes the jobs of a campaign that wait in a queue, and returns their number. It ends when it
// has found none twice, as a list can leave out jobs that change their state meanwhile. Those that are
// active end as usual; if they run again later, another Cancel deletes them.
func (r *Runner) Cancel(ctx context.Context, queue, campaign string) (deleted int, err error) {
	for empty := 0; empty < 2; empty++ {
		before := deleted
		for _, state := range []State{Scheduled, Pending} {
			var ids []string
			for info, err := range r.engine.List(ctx, queue, state) {
				if err != nil {
					return deleted, err
				}
				if info.Campaign == campaign {
					ids = append(ids, info.ID)
				}
			}
			for _, id := range ids {
				switch err := r.engine.Delete(ctx, queue, id); {
				case err == nil:
					deleted++
				case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrState):
					return deleted, err
				}
			}
		}
		if deleted > before {
			empty = -1
		}
	}
	return deleted, nil
}

// A lane hands out the turns of the campaigns that feed one queue. It has no goroutine: a campaign
// that waits looks at the queue when that is due, and hands out the turns.
type lane struct {
	mu        sync.Mutex
	turns     int // that may be taken
	waiters   []chan struct{}
	looked    time.Time
	looking   bool
	processed uint64
	rate      float64 // jobs processed in a second
}

func (r *Runner) lane(queue string) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lanes[queue]
	if l == nil {
		l = &lane{}
		r.lanes[queue] = l
	}
	return l
}

// turn waits until one more job may be enqueued.
func (l *lane) turn(ctx context.Context, r *Runner, queue string) error {
	l.mu.Lock()
	if l.turns > 0 && len(l.waiters) == 0 {
		l.turns--
		l.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	l.waiters = append(l.waiters, mine)
	l.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-mine:
			return nil
		case <-timer.C:
			l.look(ctx, r, queue)
			timer.Reset(feedEvery)
		case <-ctx.Done():
			l.leave(mine)
			return context.Cause(ctx)
		case <-r.closed:
			l.leave(mine)
			return ErrClosed
		}
	}
}

// leave gives up the place of a waiter, or its turn if it has one.
func (l *lane) leave(mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiters, mine); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
		return
	}
	l.turns++
	l.grantLocked()
}

func (l *lane) grantLocked() {
	for l.turns > 0 && len(l.waiters) > 0 {
		close(l.waiters[0])
		l.waiters = l.waiters[1:]
		l.turns--
	}
}

// look reads the queue, if that is due, and hands out turns for the jobs that it lacks.
func (l *lane) look(ctx context.Context, r *Runner, queue string) {
	l.mu.Lock()
	if l.looking || time.Since(l.looked) < feedEvery {
		l.mu.Unlock()
		return
	}
	l.looking = true
	l.mu.Unlock()
	info, err := r.engine.Inspect(ctx, queue)
	l.mu.Lock()
	now := time.Now() // after a reply that can be late
	l.looking = false
	if err == nil {
		ahead := cmp.Or(r.life.Load().Config.LookAhead, defaultLookAhead)
		l.measure(info.Processed, now)
		most := max(feedLeast, int(min(l.rate*ahead.Seconds(), feedMost)))
		l.turns = max(0, most-info.Soon)
		l.grantLocked()
	}
	l.looked = now
	l.mu.Unlock()
	switch {
	case err == nil:
		r.engineExecutes(ctx)
	case ctx.Err() == nil:
		r.engineFails(ctx, Event{Queue: queue, Err: err})
	}
}

// measure updates the rate, which rises at once and falls slowly.
func (l *lane) measure(processed uint64, now time.Time) {
	if !l.looked.IsZero() && processed >= l.processed {
		rate := float64(processed-l.processed) / now.Sub(l.looked).Seconds()
		l.rate = max(rate, 0.9*l.rate+0.1*rate)
	}
	l.processed = processed
}

package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
)

const (
	feedEvery = 250 * time.Millisecond // the time between two looks at a queue
	feedSoon  = time.Minute            // before NotBefore
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
	f := feeding{r: r}
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
type feeding struct {
	r     *Runner
	queue string // of its last job
	turns chan int
	left  int // turns
}

// feed enqueues a job, and reports whether that was necessary.
func (f *feeding) feed(ctx context.Context, job Job) (added bool, err error) {
	if err := job.validate(); err != nil {
		return false, err
	}
	if err := f.wait(ctx, time.Until(job.NotBefore.Add(-feedSoon)), nil); err != nil {
		return false, err
	}
	if f.queue != job.Queue {
		f.leave()
		f.enter(job.Queue) //nolint:contextcheck // the lane is that of all campaigns
	}
	if f.left == 0 {
		if err := f.wait(ctx, 0, f.turns); err != nil {
			return false, err
		}
	}
	f.left--
	mine := job.ID == "" // whether the job that has its ID is this one
	if mine {
		job.ID = rand.Text() // the same in each try: a reply can be lost
	}
	for {
		_, err := f.r.Enqueue(ctx, job)
		switch {
		case err == nil, errors.Is(err, ErrExists):
			f.r.engineIs(ctx, job.Queue, nil)
			return err == nil || mine, nil
		case errors.Is(err, ErrClosed), errors.Is(err, core.ErrConfig):
			return false, err
		case errors.Is(err, ErrFull):
			f.r.engineIs(ctx, job.Queue, nil)
		default:
			mine = true // probably: the try may have succeeded
			f.r.engineIs(ctx, job.Queue, err)
		}
		if err := f.wait(ctx, feedEvery, nil); err != nil {
			return false, err
		}
	}
}

// wait waits for turns, or without them for a time.
func (f *feeding) wait(ctx context.Context, d time.Duration, turns <-chan int) error {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	if d > 0 || turns != nil {
		select {
		case <-over:
		case f.left = <-turns:
		case <-ctx.Done():
		case <-f.r.closing:
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case f.r.isClosed():
		return ErrClosed
	}
	return nil
}

// A lane hands out the turns of the campaigns that feed one queue: as many to each that waits.
type lane struct {
	feedings []*feeding
	stop     func()
}

// enter enters the lane of a queue; the first feeding begins it.
func (f *feeding) enter(queue string) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.queue, f.turns, f.left = queue, make(chan int, 1), 0
	l := f.r.lanes[queue]
	if l == nil {
		ctx, stop := context.WithCancel(context.Background())
		l = &lane{stop: stop}
		f.r.lanes[queue] = l
		go f.r.lead(ctx, l, queue)
	}
	l.feedings = append(l.feedings, f)
}

// leave leaves the lane; the last feeding ends it.
func (f *feeding) leave() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	l := f.r.lanes[f.queue]
	if l == nil {
		return
	}
	if l.feedings = slices.DeleteFunc(l.feedings, func(o *feeding) bool { return o == f }); len(l.feedings) == 0 {
		l.stop()
		delete(f.r.lanes, f.queue)
	}
}

// lead keeps some jobs ahead of the handlers: twice as many as before when most of them have begun between two looks, so that the
// queue does not run empty, and slowly fewer when few have.
func (r *Runner) lead(ctx context.Context, l *lane, queue string) {
	ticker := time.NewTicker(feedEvery)
	defer ticker.Stop()
	for ahead := feedLeast; ; {
		all, err := r.queue.Inspect(ctx, queue)
		r.engineIs(ctx, queue, err)
		if err == nil {
			left := all[0].Pending + all[0].Soon
			switch {
			case left < ahead/4:
				ahead = min(2*ahead, feedMost)
			case left > ahead-ahead/16:
				ahead = max(ahead-ahead/16, feedLeast)
			}
			r.hand(l, max(0, ahead-left))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// hand hands out turns. Those that cannot be divided go to other feedings each time.
func (r *Runner) hand(l *lane, turns int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := slices.DeleteFunc(slices.Clone(l.feedings), func(f *feeding) bool { return len(f.turns) > 0 })
	if len(waiting) == 0 {
		return
	}
	each, more := turns/len(waiting), turns%len(waiting)
	for i, f := range waiting {
		if n := each + min(1, max(0, more-i)); n > 0 {
			f.turns <- n
		}
	}
	l.feedings = append(l.feedings[more:], l.feedings[:more]...)
}

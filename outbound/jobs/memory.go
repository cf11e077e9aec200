package jobs

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/minheap"
)

// Memory returns an engine in the memory of this process.
func Memory() *Engine {
	return groups.NewEngine(&memory{queues: map[string]*memoryQueue{}}, groups.NewMemory())
}

// memory is a queue in memory.
type memory struct {
	mu     sync.Mutex
	queues map[string]*memoryQueue
}

type memoryHeap = minheap.Heap[*memoryJob]

// A memoryQueue is one queue. Its jobs are in the heap of their state, or are active.
type memoryQueue struct {
	jobs    map[string]*memoryJob
	waiting memoryHeap // pending and scheduled, by the time at which they are due
	failed  memoryHeap // by the time of the failure
	done    memoryHeap // by the end of Retain
	active  int
	seq     uint64
	paused  bool
	held    time.Time
	changed chan struct{} // closed at the next change that a Run waits for
}

type memoryJob struct {
	minheap.Place
	groups.Job

	in       *memoryHeap // nil while it is active
	at       time.Time
	seq      uint64
	failures int
	limited  bool // its last attempt was
	lastErr  string
}

// Before implements minheap.Element.
func (j *memoryJob) Before(o *memoryJob) bool {
	return j.at.Before(o.at) || j.at.Equal(o.at) && j.seq < o.seq
}

// lock returns a queue, which the caller unlocks with m.mu.
func (m *memory) lock(name string) (q *memoryQueue, now time.Time) {
	m.mu.Lock()
	if q = m.queues[name]; q == nil {
		q = &memoryQueue{jobs: map[string]*memoryJob{}, changed: make(chan struct{})}
		m.queues[name] = q
	}
	now = time.Now()
	for q.done.Len() > 0 && !q.done.First().at.After(now) {
		q.remove(q.done.First())
	}
	return q, now
}

func (m *memory) Enqueue(_ context.Context, job groups.Job, most int) error {
	q, now := m.lock(job.Queue)
	defer m.mu.Unlock()
	old := q.jobs[job.ID]
	switch {
	case old == nil && len(q.jobs)-q.done.Len() >= most:
		return ErrFull
	case old != nil && old.in != &q.failed:
		return ErrExists
	case old != nil:
		q.remove(old)
	}
	job.Payload, job.Meta = slices.Clone(job.Payload), maps.Clone(job.Meta)
	q.jobs[job.ID] = &memoryJob{Job: job}
	q.put(&q.waiting, q.jobs[job.ID], now, job.NotBefore)
	return nil
}

// put puts a job that is in no heap into one, at a time, or now if that is over. Without a time it goes back to its place.
func (q *memoryQueue) put(h *memoryHeap, j *memoryJob, now, at time.Time) {
	if !at.IsZero() || j.seq == 0 {
		q.seq++
		j.at, j.seq = now.Add(max(0, at.Sub(now))), q.seq // with the monotonic clock
	}
	j.in = h
	h.Add(j)
	q.change()
}

func (q *memoryQueue) change() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *memoryQueue) remove(j *memoryJob) {
	j.in.Remove(j)
	delete(q.jobs, j.ID)
}

func (m *memory) Run(ctx context.Context, queue string, w groups.Worker) {
	var group sync.WaitGroup
	defer group.Wait()
	places := make(chan struct{}, w.Concurrency)
	for {
		select {
		case <-ctx.Done():
			return
		case places <- struct{}{}:
		}
		j := m.take(ctx, queue, w.Closing)
		if j == nil {
			return
		}
		group.Go(func() {
			defer func() { <-places }()
			m.finish(j, w.Handle(context.WithoutCancel(ctx), groups.Entry{Job: j.Job}))
		})
	}
}

// take waits for the next job that is due. It returns nil when ctx ends, or when the engine closes and none is due.
func (m *memory) take(ctx context.Context, queue string, closing <-chan struct{}) *memoryJob {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for closes := false; ctx.Err() == nil; {
		q, now := m.lock(queue)
		j, wait := q.next(now)
		changed, over := q.changed, closes && q.idle(now)
		m.mu.Unlock()
		if j != nil || over {
			return j
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
		case <-closing:
			closes, closing = true, nil
		}
	}
	return nil
}

// next takes the next job if it is due; otherwise it returns the time until it may be.
func (q *memoryQueue) next(now time.Time) (*memoryJob, time.Duration) {
	if q.paused || q.waiting.Len() == 0 {
		return nil, time.Hour
	}
	j := q.waiting.First()
	if wait := max(q.held.Sub(now), j.at.Sub(now)); wait > 0 {
		return nil, wait
	}
	q.waiting.Remove(j)
	j.in, j.Attempt = nil, j.failures+1
	q.active++
	return j, 0
}

// idle reports whether no job is active, is due, or waits for the vendor alone.
func (q *memoryQueue) idle(now time.Time) bool {
	for j := range q.waiting.All() {
		if !q.paused && (j.limited || !j.at.After(now)) {
			return false
		}
	}
	return q.active == 0
}

// finish carries out the verdict about a job.
func (m *memory) finish(j *memoryJob, v groups.Verdict) {
	text := ""
	if v.Err != nil {
		text = v.Err.Error()
	}
	q, now := m.lock(j.Queue)
	defer m.mu.Unlock()
	q.active--
	j.lastErr, j.limited = text, v.End == groups.Limited
	h, at := &q.waiting, v.At
	switch v.End {
	case groups.Succeeded:
		h, at = &q.done, now.Add(j.Retain)
	case groups.Failed:
		h, at = &q.failed, now
		j.failures++
	case groups.Retried:
		j.failures++
	case groups.Limited:
	}
	q.put(h, j, now, at)
}

// state returns the state of a job.
func (q *memoryQueue) state(j *memoryJob, now time.Time) State {
	switch {
	case j.in == nil:
		return Active
	case j.in == &q.failed:
		return Failed
	case j.in == &q.done:
		return Done
	case j.at.After(now):
		return Scheduled
	}
	return Pending
}

func (m *memory) Inspect(_ context.Context, queues ...string) (all []groups.Counts, err error) {
	for _, name := range queues {
		q, now := m.lock(name)
		due := func(t time.Time) int {
			return q.waiting.Count(func(j *memoryJob) bool { return !j.at.After(t) })
		}
		c := groups.Counts{Pending: due(now), Active: q.active, Failed: q.failed.Len(), Done: q.done.Len(), Paused: q.paused}
		c.Scheduled, c.Soon = q.waiting.Len()-c.Pending, due(now.Add(time.Minute))-c.Pending
		if c.Pending > 0 {
			c.Oldest = q.waiting.First().at
		}
		m.mu.Unlock()
		all = append(all, c)
	}
	return all, nil
}

// left returns the number of jobs that have neither succeeded nor failed.
func (m *memory) left() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queues {
		n += q.waiting.Len() + q.active
	}
	return n
}

// List has the jobs of one moment, by the time at which they are due.
func (m *memory) List(_ context.Context, queue, state string) iter.Seq2[groups.Entry, error] {
	return func(yield func(groups.Entry, error) bool) {
		var all []groups.Entry
		q, now := m.lock(queue)
		for _, j := range q.jobs {
			if q.state(j, now) == State(state) {
				all = append(all, groups.Entry{Job: j.Job, State: state, Due: j.at, LastError: j.lastErr})
				all[len(all)-1].Attempt = j.failures + 1
			}
		}
		m.mu.Unlock()
		slices.SortFunc(all, func(a, b groups.Entry) int { return a.Due.Compare(b.Due) })
		for _, e := range all {
			if State(state) != Scheduled {
				e.Due = time.Time{}
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) Control(_ context.Context, queue string, v groups.Verb, id string) error {
	q, now := m.lock(queue)
	defer m.mu.Unlock()
	j := q.jobs[id]
	switch {
	case v == groups.Pause, v == groups.Resume:
		q.paused, q.held = v == groups.Pause, time.Time{}
		q.change()
	case j == nil || j.in == nil:
		return ErrNotFound
	case v == groups.Delete:
		q.remove(j)
	case j.in == &q.failed, q.state(j, now) == Scheduled:
		j.in.Remove(j)
		j.failures = 0
		q.put(&q.waiting, j, now, now)
	default:
		return ErrNotFound
	}
	return nil
}

func (m *memory) Hold(_ context.Context, queue string, until time.Time) error {
	q, _ := m.lock(queue)
	defer m.mu.Unlock()
	if until.After(q.held) {
		q.held = until
	}
	return nil
}

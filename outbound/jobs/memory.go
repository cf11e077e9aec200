package jobs

import (
	"container/heap"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/groups"
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

// A memoryQueue is one queue. Its jobs are in the heap of their state, or are active.
type memoryQueue struct {
	jobs    map[string]*memoryJob
	waiting memoryHeap // pending and scheduled, by the time at which they are due
	failed  memoryHeap // by the time of the failure
	done    memoryHeap // by the end of Retain
	active  int
	runs    int // calls of Run
	seq     uint64
	paused  bool
	held    time.Time
	changed chan struct{} // closed at the next change that a Run waits for
}

type memoryJob struct {
	groups.Job

	in       *memoryHeap // nil while it is active
	index    int         // in the heap
	at       time.Time
	seq      uint64
	failures int
	limited  bool // its last attempt was
	lastErr  string
}

// lock locks a queue, which is made if need be and forgotten by the result if it is empty.
func (m *memory) lock(name string) (q *memoryQueue, now time.Time, unlock func()) {
	m.mu.Lock()
	if q = m.queues[name]; q == nil {
		q = &memoryQueue{jobs: map[string]*memoryJob{}, changed: make(chan struct{})}
		m.queues[name] = q
	}
	now = time.Now()
	for len(q.done) > 0 && !q.done[0].at.After(now) {
		q.remove(q.done[0])
	}
	return q, now, func() {
		if len(q.jobs) == 0 && q.runs == 0 && !q.paused && !q.held.After(now) {
			delete(m.queues, name)
		}
		m.mu.Unlock()
	}
}

func (m *memory) Enqueue(_ context.Context, job groups.Job, most int) error {
	q, now, unlock := m.lock(job.Queue)
	defer unlock()
	old := q.jobs[job.ID]
	replaces := old != nil && old.in == &q.failed
	switch {
	case old != nil && !replaces:
		return ErrExists
	case old == nil && len(q.jobs)-len(q.done) >= most:
		return ErrFull
	case replaces:
		q.remove(old)
	}
	job.Payload, job.Meta = slices.Clone(job.Payload), maps.Clone(job.Meta)
	j := &memoryJob{Job: job}
	q.jobs[job.ID] = j
	q.wait(j, now, job.NotBefore)
	return nil
}

// wait puts a job into the heap of those that wait, due at a time, or now if that is over.
func (q *memoryQueue) wait(j *memoryJob, now, at time.Time) {
	q.put(&q.waiting, j, now.Add(max(0, at.Sub(now)))) // with the monotonic clock
	q.change()
}

func (q *memoryQueue) put(h *memoryHeap, j *memoryJob, at time.Time) {
	q.seq++
	j.at, j.seq = at, q.seq
	heap.Push(h, j)
	j.in = h
}

func (q *memoryQueue) change() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *memoryQueue) remove(j *memoryJob) {
	if j.in != nil {
		heap.Remove(j.in, j.index)
	}
	delete(q.jobs, j.ID)
}

func (m *memory) Run(ctx context.Context, queue string, w groups.Worker) {
	q, _, unlock := m.lock(queue)
	q.runs++
	unlock()
	var group sync.WaitGroup
	defer func() {
		group.Wait()
		q, _, unlock := m.lock(queue)
		q.runs--
		unlock()
	}()
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
		q, now, unlock := m.lock(queue)
		j, wait := q.next(now)
		changed, over := q.changed, j == nil && closes && q.idle(now)
		unlock()
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
	switch {
	case q.paused || len(q.waiting) == 0:
		return nil, time.Hour
	case q.held.After(now):
		return nil, q.held.Sub(now)
	case q.waiting[0].at.After(now):
		return nil, q.waiting[0].at.Sub(now)
	}
	j, _ := heap.Pop(&q.waiting).(*memoryJob)
	j.in = nil
	j.Attempt = j.failures + 1
	q.active++
	return j, 0
}

// idle reports whether no job is active, is due, or waits for the vendor alone.
func (q *memoryQueue) idle(now time.Time) bool {
	return q.active == 0 && (q.paused || !slices.ContainsFunc(q.waiting, func(j *memoryJob) bool { return j.limited || !j.at.After(now) }))
}

// finish carries out the verdict about a job.
func (m *memory) finish(j *memoryJob, v groups.Verdict) {
	text := ""
	if v.Err != nil {
		text = v.Err.Error()
	}
	q, now, unlock := m.lock(j.Queue)
	defer unlock()
	q.active--
	j.lastErr, j.limited = text, v.End == groups.Limited
	switch v.End {
	case groups.Succeeded:
		if j.Retain > 0 {
			q.put(&q.done, j, now.Add(j.Retain))
		} else {
			q.remove(j)
		}
		q.change() // for a Run that ends
	case groups.Limited:
		if !v.At.IsZero() {
			q.wait(j, now, v.At)
			return
		}
		heap.Push(&q.waiting, j)
		j.in = &q.waiting
		q.change()
	case groups.Retried:
		j.failures++
		q.wait(j, now, v.At)
	case groups.Failed:
		j.failures++
		q.put(&q.failed, j, now)
		q.change()
	}
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

func (m *memory) Inspect(_ context.Context, queues ...string) ([]groups.Counts, error) {
	all := make([]groups.Counts, 0, len(queues))
	for _, name := range queues {
		q, now, unlock := m.lock(name)
		c := groups.Counts{Pending: q.waiting.until(now), Active: q.active, Failed: len(q.failed), Done: len(q.done), Paused: q.paused}
		c.Scheduled, c.Soon = len(q.waiting)-c.Pending, q.waiting.until(now.Add(time.Minute))-c.Pending
		if c.Pending > 0 {
			c.Oldest = q.waiting[0].at
		}
		unlock()
		all = append(all, c)
	}
	return all, nil
}

// left returns the number of jobs that have neither succeeded nor failed.
func (m *memory) left(queues []string) (n int) {
	for _, name := range queues {
		q, _, unlock := m.lock(name)
		n += len(q.waiting) + q.active
		unlock()
	}
	return n
}

// List has the jobs of one moment, by the time at which they are due.
func (m *memory) List(_ context.Context, queue, state string) iter.Seq2[groups.Entry, error] {
	return func(yield func(groups.Entry, error) bool) {
		for _, e := range m.list(queue, State(state)) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) list(queue string, state State) (all []groups.Entry) {
	q, now, unlock := m.lock(queue)
	defer unlock()
	for _, j := range q.jobs {
		if q.state(j, now) == state {
			e := groups.Entry{Job: j.Job, State: string(state), Due: j.at, LastError: j.lastErr}
			e.Attempt = j.failures + 1
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b groups.Entry) int { return a.Due.Compare(b.Due) })
	for i := range all {
		if state != Scheduled {
			all[i].Due = time.Time{}
		}
	}
	return all
}

func (m *memory) RunNow(_ context.Context, queue, id string) error {
	q, now, unlock := m.lock(queue)
	defer unlock()
	j := q.jobs[id]
	if j == nil || j.in != &q.failed && q.state(j, now) != Scheduled {
		return ErrNotFound
	}
	heap.Remove(j.in, j.index)
	j.failures = 0
	q.wait(j, now, now)
	return nil
}

func (m *memory) Delete(_ context.Context, queue, id string) error {
	q, _, unlock := m.lock(queue)
	defer unlock()
	j := q.jobs[id]
	if j == nil || j.in == nil {
		return ErrNotFound
	}
	q.remove(j)
	return nil
}

func (m *memory) Pause(_ context.Context, queue string, paused bool) error {
	q, _, unlock := m.lock(queue)
	defer unlock()
	q.paused, q.held = paused, time.Time{}
	q.change()
	return nil
}

func (m *memory) Hold(_ context.Context, queue string, until time.Time) error {
	q, _, unlock := m.lock(queue)
	defer unlock()
	if until.After(q.held) {
		q.held = until
	}
	return nil
}

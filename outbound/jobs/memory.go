package jobs

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

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
	closed bool
}

type memoryHeap = minheap.Heap[*memoryJob]

// A memoryQueue is one queue.
type memoryQueue struct {
	jobs    map[string]*memoryJob
	states  map[State]*memoryHeap
	seq     uint64
	paused  bool
	held    time.Time
	changed chan struct{} // closed at the next change that a Run waits for
}

type memoryJob struct {
	minheap.Place
	groups.Entry

	at      time.Time // when it is due, has failed, or is done and its Retain is over
	seq     uint64
	limited bool // its last attempt was limited, other than by RunAt
}

// Before implements minheap.Element.
func (j *memoryJob) Before(o *memoryJob) bool {
	return j.at.Before(o.at) || j.at.Equal(o.at) && j.seq < o.seq
}

// lock returns a queue in its present state, with m.mu locked; the caller unlocks it.
func (m *memory) lock(name string) (q *memoryQueue, now time.Time) {
	m.mu.Lock()
	if q = m.queues[name]; q == nil {
		q = &memoryQueue{jobs: map[string]*memoryJob{}, changed: make(chan struct{})}
		q.states = map[State]*memoryHeap{Pending: {}, Scheduled: {}, Active: {}, Failed: {}, Done: {}}
		m.queues[name] = q
	}
	now = time.Now()
	for from, to := range map[State]State{Scheduled: Pending, Done: ""} {
		for j := q.first(from); j != nil && !j.at.After(now); j = q.first(from) {
			q.move(j, to, j.at)
		}
	}
	return q, now
}

// first returns the first job in a state, or nil.
func (q *memoryQueue) first(s State) *memoryJob {
	if q.states[s].Len() == 0 {
		return nil
	}
	return q.states[s].First()
}

// move gives a job another state; "" removes it. A Scheduled job comes after others of the same time.
func (q *memoryQueue) move(j *memoryJob, to State, at time.Time) {
	if j.State != "" {
		q.states[State(j.State)].Remove(j)
	}
	j.State, j.at, j.Due = string(to), at, time.Time{}
	if to == Scheduled {
		q.seq++
		j.seq, j.Due = q.seq, at
	}
	if to == "" {
		delete(q.jobs, j.ID)
	} else {
		q.states[to].Add(j)
	}
	q.change()
}

func (q *memoryQueue) change() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// notBefore returns at, or now if at is in the past, with a monotonic clock reading.
func notBefore(at, now time.Time) time.Time { return now.Add(max(0, at.Sub(now))) }

func (m *memory) Enqueue(_ context.Context, job groups.Job, most int) error {
	q, now := m.lock(job.Queue)
	defer m.mu.Unlock()
	old := q.jobs[job.ID]
	switch {
	case m.closed:
		return ErrClosed
	case old == nil && len(q.jobs)-q.states[Done].Len() >= most:
		return ErrFull
	case old != nil && old.State != string(Failed):
		return ErrExists
	case old != nil:
		q.move(old, "", now)
	}
	job.Payload, job.Meta, job.Attempt = slices.Clone(job.Payload), maps.Clone(job.Meta), 1
	q.jobs[job.ID] = &memoryJob{Entry: groups.Entry{Job: job}}
	q.move(q.jobs[job.ID], Scheduled, notBefore(job.NotBefore, now))
	return nil
}

func (m *memory) Run(ctx context.Context, queue string, w groups.Worker) {
	var group sync.WaitGroup
	defer group.Wait()
	places := semaphore.NewWeighted(int64(w.Concurrency))
	for places.Acquire(ctx, 1) == nil {
		var j *memoryJob
		m.until(ctx, queue, func(q *memoryQueue, now time.Time) (wait time.Duration) {
			j, wait = q.next(now)
			return wait
		})
		if j == nil {
			return
		}
		group.Go(func() {
			defer places.Release(1)
			m.finish(j, w.Handle(context.WithoutCancel(ctx), j.Entry))
		})
	}
}

// until calls f after each change of a queue, and after the wait that f returns, until that is 0 or ctx ends.
func (m *memory) until(ctx context.Context, queue string, f func(q *memoryQueue, now time.Time) (wait time.Duration)) {
	for ctx.Err() == nil {
		q, now := m.lock(queue)
		wait, changed := f(q, now), q.changed
		m.mu.Unlock()
		if wait == 0 {
			return
		}
		groups.Sleep(ctx, wait, changed)
	}
}

// drain waits until no job of a queue is active, is due, or waits only for the vendor.
func (m *memory) drain(ctx context.Context, queue string) {
	m.until(ctx, queue, func(q *memoryQueue, _ time.Time) time.Duration {
		due := q.first(Pending) != nil
		for j := range q.states[Scheduled].All() {
			due = due || j.limited
		}
		if q.first(Active) != nil || due && !q.paused {
			return time.Hour
		}
		return 0
	})
}

// next takes the next job if it is due; otherwise it returns how long to wait.
func (q *memoryQueue) next(now time.Time) (*memoryJob, time.Duration) {
	j, later := q.first(Pending), q.first(Scheduled)
	switch {
	case q.paused || j == nil && later == nil:
		return nil, time.Hour
	case q.held.After(now):
		return nil, q.held.Sub(now)
	case j == nil:
		return nil, later.at.Sub(now)
	}
	q.move(j, Active, j.at)
	return j, 0
}

// finish carries out the verdict about a job.
func (m *memory) finish(j *memoryJob, v groups.Verdict) {
	q, now := m.lock(j.Queue)
	defer m.mu.Unlock()
	_, later := errors.AsType[*runAtError](v.Err)
	if j.limited = v.End == groups.Limited && !later; v.Err != nil {
		j.LastError = v.Err.Error()
	}
	if v.End == groups.Retried || v.End == groups.Failed {
		j.Attempt++
	}
	switch {
	case v.End == groups.Succeeded:
		q.move(j, Done, now.Add(j.Retain))
	case v.End == groups.Failed:
		q.move(j, Failed, now)
	case v.At.IsZero(): // back to its place
		q.move(j, Pending, j.at)
	default:
		q.move(j, Scheduled, notBefore(v.At, now))
	}
}

func (m *memory) Inspect(_ context.Context, queues ...string) (all []groups.Counts, err error) {
	for _, name := range queues {
		q, now := m.lock(name)
		n := func(s State) int { return q.states[s].Len() }
		c := groups.Counts{Pending: n(Pending), Scheduled: n(Scheduled), Active: n(Active), Failed: n(Failed), Done: n(Done), Paused: q.paused}
		c.Soon = q.states[Scheduled].Count(func(j *memoryJob) bool { return j.at.Sub(now) <= time.Minute })
		if j := q.first(Pending); j != nil {
			c.Oldest = j.at
		}
		m.mu.Unlock()
		all = append(all, c)
	}
	return all, nil
}

// close accepts no more jobs, and returns the number of those that have neither succeeded nor failed.
func (m *memory) close() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, q := range m.queues {
		n += q.states[Pending].Len() + q.states[Scheduled].Len() + q.states[Active].Len()
	}
	return n
}

// List lists the jobs as they are when it begins, in the order in which they are due.
func (m *memory) List(_ context.Context, queue, state string) iter.Seq2[groups.Entry, error] {
	return func(yield func(groups.Entry, error) bool) {
		q, _ := m.lock(queue)
		var all []groups.Entry
		for _, j := range slices.SortedFunc(q.states[State(state)].All(), func(a, b *memoryJob) int { return a.at.Compare(b.at) }) {
			all = append(all, j.Entry)
		}
		m.mu.Unlock()
		for _, e := range all {
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
	case j == nil || j.State == string(Active):
		return ErrNotFound
	case v == groups.Delete:
		q.move(j, "", now)
	case j.State == string(Failed), j.State == string(Scheduled):
		j.Attempt = 1
		q.move(j, Scheduled, now)
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

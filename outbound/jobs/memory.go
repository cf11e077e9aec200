package jobs

import (
	"container/heap"
	"context"
	"iter"
	"slices"
	"sync"
	"time"
)

const (
	defaultMemory = 100_000 // jobs
	maxQueues     = 10_000
	maxFailed     = 10_000 // of a queue
)

// Memory is the [Engine] in the memory of the process: exact times, and no job outlives the process.
// Make it with [NewMemory].
type Memory struct {
	most   int
	mu     sync.Mutex
	n      int // jobs of all queues
	queues map[string]*memoryQueue
}

// NewMemory makes an engine that keeps at most maxJobs jobs, those that are kept as failed or done
// included. If zero, it is 100,000; a negative one is 100,000 too. It has at most 10,000 queues.
func NewMemory(maxJobs int) *Memory {
	if maxJobs <= 0 {
		maxJobs = defaultMemory
	}
	return &Memory{most: maxJobs, queues: map[string]*memoryQueue{}}
}

// A memoryQueue is one queue. Its jobs are in the heap of their state, or are active.
type memoryQueue struct {
	jobs      map[string]*memoryJob
	waiting   memoryHeap // pending and scheduled, by the time at which they are due
	failed    memoryHeap // by the time of the failure
	done      memoryHeap // by the end of Retain
	active    int
	processed uint64
	seq       uint64
	paused    bool
	held      time.Time
	changed   chan struct{} // closed at the next change that a Run waits for
}

type memoryJob struct {
	Job
	in       *memoryHeap // nil while it is active
	index    int         // in the heap
	at       time.Time
	seq      uint64
	failures int
	lastErr  string
	failedAt time.Time
}

// queueLocked returns a queue, and makes it if there is room.
func (m *Memory) queueLocked(name string) *memoryQueue {
	q := m.queues[name]
	if q == nil && len(m.queues) < maxQueues {
		q = &memoryQueue{jobs: map[string]*memoryJob{}, changed: make(chan struct{})}
		m.queues[name] = q
	}
	return q
}

// Enqueue implements [Engine].
func (m *Memory) Enqueue(_ context.Context, job Job) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, q := time.Now(), m.queueLocked(job.Queue)
	if q == nil {
		return ErrFull
	}
	m.expireLocked(q, now)
	old := q.jobs[job.ID]
	if old != nil && old.in == &q.failed {
		m.removeLocked(q, old)
		old = nil
	}
	switch {
	case old != nil:
		return ErrExists
	case m.n >= m.most:
		return ErrFull
	}
	job.Payload = slices.Clone(job.Payload)
	j := &memoryJob{Job: job}
	q.jobs[job.ID] = j
	m.n++
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

// expireLocked removes the jobs whose Retain is over.
func (m *Memory) expireLocked(q *memoryQueue, now time.Time) {
	for len(q.done) > 0 && !q.done[0].at.After(now) {
		m.removeLocked(q, q.done[0])
	}
}

func (m *Memory) removeLocked(q *memoryQueue, j *memoryJob) {
	if j.in != nil {
		heap.Remove(j.in, j.index)
	}
	delete(q.jobs, j.ID)
	m.n--
}

// Run implements [Engine].
func (m *Memory) Run(ctx context.Context, queue string, concurrency int, handle func(context.Context, Job) Result) error {
	var group sync.WaitGroup
	defer group.Wait()
	slots := make(chan struct{}, concurrency)
	for {
		select {
		case <-ctx.Done():
			return nil
		case slots <- struct{}{}:
		}
		j, err := m.take(ctx, queue)
		if j == nil {
			return err
		}
		group.Go(func() {
			defer func() { <-slots }()
			m.finish(j, handle(context.WithoutCancel(ctx), j.Job))
		})
	}
}

// take waits for the next job that is due, and returns nil when ctx ends.
func (m *Memory) take(ctx context.Context, queue string) (*memoryJob, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		m.mu.Lock()
		q := m.queueLocked(queue)
		if q == nil {
			m.mu.Unlock()
			return nil, ErrFull
		}
		j, wait := q.next(time.Now())
		changed := q.changed
		m.mu.Unlock()
		if j != nil {
			return j, nil
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
		}
	}
	return nil, nil
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

// finish carries out the result of an attempt.
func (m *Memory) finish(j *memoryJob, result Result) {
	text := ""
	if result.Err != nil {
		text = result.Err.Error()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	q, now := m.queues[j.Queue], time.Now()
	q.active--
	if result.Err != nil {
		j.lastErr, j.failedAt = text, now
	}
	if result.Verdict != Again {
		q.processed++
	}
	switch result.Verdict {
	case Succeeded:
		if j.Retain > 0 {
			q.put(&q.done, j, now.Add(j.Retain))
		} else {
			m.removeLocked(q, j)
		}
	case Again:
		q.wait(j, now, result.At)
	case Retry:
		j.failures++
		q.wait(j, now, result.At)
	case Fail:
		if len(q.failed) == maxFailed {
			m.removeLocked(q, q.failed[0])
		}
		q.put(&q.failed, j, now)
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

// Inspect implements [Inspector].
func (m *Memory) Inspect(_ context.Context, queue string) (QueueInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info, now, q := QueueInfo{Queue: queue}, time.Now(), m.queues[queue]
	if q == nil {
		return info, nil
	}
	m.expireLocked(q, now)
	info.Active, info.Failed, info.Done, info.Processed, info.Paused = q.active, len(q.failed), len(q.done), q.processed, q.paused
	if q.held.After(now) {
		info.HeldUntil = q.held
	}
	for _, j := range q.waiting {
		if q.state(j, now) == Pending {
			info.Pending++
		}
		if !j.at.After(now.Add(Soon)) {
			info.Soon++
		}
	}
	info.Scheduled = len(q.waiting) - info.Pending
	if info.Pending > 0 {
		info.Latency = now.Sub(q.waiting[0].at)
	}
	return info, nil
}

// List implements [Inspector]. Its jobs are those of one moment, by the time at which they are due.
func (m *Memory) List(_ context.Context, queue string, state State) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for _, info := range m.list(queue, state) {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (m *Memory) list(queue string, state State) (infos []Info) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q, now := m.queues[queue], time.Now()
	if q == nil {
		return nil
	}
	m.expireLocked(q, now)
	for _, j := range q.jobs {
		if q.state(j, now) != state {
			continue
		}
		info := Info{Job: j.Job, State: state, LastError: j.lastErr, FailedAt: j.failedAt}
		info.Attempt = j.failures + 1
		info.At = j.at
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b Info) int { return a.At.Compare(b.At) })
	if state != Scheduled {
		for i := range infos {
			infos[i].At = time.Time{}
		}
	}
	return infos
}

// RunNow implements [Inspector].
func (m *Memory) RunNow(_ context.Context, queue, id string) error {
	return m.change(queue, id, func(q *memoryQueue, j *memoryJob, now time.Time) error {
		if s := q.state(j, now); s != Scheduled && s != Failed {
			return ErrState
		}
		heap.Remove(j.in, j.index)
		q.wait(j, now, now)
		return nil
	})
}

// Delete implements [Inspector].
func (m *Memory) Delete(_ context.Context, queue, id string) error {
	return m.change(queue, id, func(q *memoryQueue, j *memoryJob, _ time.Time) error {
		if j.in == nil {
			return ErrState
		}
		m.removeLocked(q, j)
		return nil
	})
}

func (m *Memory) change(queue, id string, f func(*memoryQueue, *memoryJob, time.Time) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, q := time.Now(), m.queues[queue]
	if q == nil {
		return ErrNotFound
	}
	m.expireLocked(q, now)
	j := q.jobs[id]
	if j == nil {
		return ErrNotFound
	}
	return f(q, j, now)
}

// Pause implements [Inspector].
func (m *Memory) Pause(_ context.Context, queue string) error {
	return m.stop(queue, func(q *memoryQueue) { q.paused, q.held = true, time.Time{} })
}

// Resume implements [Inspector].
func (m *Memory) Resume(_ context.Context, queue string) error {
	return m.stop(queue, func(q *memoryQueue) { q.paused, q.held = false, time.Time{} })
}

// Hold implements [Inspector].
func (m *Memory) Hold(_ context.Context, queue string, until time.Time) error {
	return m.stop(queue, func(q *memoryQueue) {
		if !q.paused {
			q.held = later(q.held, until)
		}
	})
}

func (m *Memory) stop(queue string, f func(*memoryQueue)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queueLocked(queue)
	if q == nil {
		return ErrFull
	}
	f(q)
	q.change()
	return nil
}

package jobstest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gresil/gresil/outbound/jobs"
)

// patience is the time in which each expected thing happens, also on a busy machine.
const patience = 20 * time.Second

// A suite is one test of one engine.
type suite struct {
	*testing.T
	engine jobs.Engine
	queue  string
}

type handler func(ctx context.Context, job jobs.Job) jobs.Result

func (s *suite) enqueue(job jobs.Job) {
	s.Helper()
	if err := s.try(job); err != nil {
		s.Fatalf("Enqueue(%q) = %v", job.ID, err)
	}
}

func (s *suite) try(job jobs.Job) error {
	job.Queue = s.queue
	if job.Kind == "" {
		job.Kind = "test"
	}
	if job.MaxAttempts == 0 {
		job.MaxAttempts = 5
	}
	return s.engine.Enqueue(s.Context(), job)
}

// run runs the queue until stop is called, which waits for the end.
func (s *suite) run(concurrency int, handle handler) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.engine.Run(ctx, s.queue, concurrency, handle) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("Run = %v", err)
		}
	})
	s.Cleanup(stop)
	return stop
}

// await waits until the counts of the queue are as expected.
func (s *suite) await(want string, ok func(jobs.QueueInfo) bool) {
	s.Helper()
	var last jobs.QueueInfo
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		last = s.inspect()
		if ok(last) {
			return
		}
	}
	s.Fatalf("queue = %+v, want %s", last, want)
}

func (s *suite) inspect() jobs.QueueInfo {
	s.Helper()
	info, err := s.engine.Inspect(s.Context(), s.queue)
	if err != nil {
		s.Fatalf("Inspect = %v", err)
	}
	if info.Queue != s.queue {
		s.Fatalf("Inspect = %q, want %q", info.Queue, s.queue)
	}
	return info
}

func (s *suite) empty() {
	s.Helper()
	s.await("empty", func(i jobs.QueueInfo) bool { return i.Pending+i.Scheduled+i.Active == 0 })
}

func (s *suite) list(state jobs.State) (infos []jobs.Info) {
	s.Helper()
	for info, err := range s.engine.List(s.Context(), s.queue, state) {
		if err != nil {
			s.Fatalf("List(%v) = %v", state, err)
		}
		if info.State != state {
			s.Fatalf("List(%v) has a job in state %v", state, info.State)
		}
		infos = append(infos, info)
	}
	return infos
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// A record keeps the attempts, in their order.
type record struct {
	mu   sync.Mutex
	jobs []jobs.Job
	at   []time.Time
}

func (r *record) add(job jobs.Job) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs, r.at = append(r.jobs, job), append(r.at, time.Now())
	return len(r.jobs)
}

func (r *record) all() ([]jobs.Job, []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[:len(r.jobs):len(r.jobs)], r.at[:len(r.at):len(r.at)]
}

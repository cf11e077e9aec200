package jobstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/outbound/jobs"
)

func (s *suite) handledOnce() {
	payload := bytes.Repeat([]byte{0, 0xff, '{', ':'}, 1<<18)
	notBefore := time.Now().Add(-time.Hour)
	s.enqueue(jobs.Job{ID: "a:{b}\u00fc", Kind: "kind", Campaign: "c: d", Payload: payload, NotBefore: notBefore, MaxAttempts: -1})
	for i := range 30 {
		s.enqueue(jobs.Job{ID: strconv.Itoa(i)})
	}
	var seen record
	stop := s.run(8, func(_ context.Context, job jobs.Job) jobs.Result {
		seen.add(job)
		return jobs.Result{}
	})
	s.await("all processed", func(i jobs.QueueInfo) bool { return i.Processed == 31 })
	s.empty()
	stop()
	all, _ := seen.all()
	ids := map[string]int{}
	for _, job := range all {
		ids[job.ID]++
		if job.Attempt != 1 || job.Queue != s.queue {
			s.Errorf("job = %+v, want attempt 1 of %q", job, s.queue)
		}
		if job.Kind == "kind" && (job.Campaign != "c: d" || !bytes.Equal(job.Payload, payload) || !job.NotBefore.Equal(notBefore) || job.MaxAttempts != -1) {
			s.Errorf("job %q has changed", job.ID)
		}
	}
	if len(all) != 31 || len(ids) != 31 {
		s.Errorf("%d attempts of %d jobs, want 31 of 31", len(all), len(ids))
	}
}

func (s *suite) neverEarly() {
	const wait = 1300 * time.Millisecond
	var due time.Time
	n, early, latest := 0, time.Hour, time.Duration(0)
	done := make(chan struct{})
	due = time.Now().Add(wait)
	s.enqueue(jobs.Job{ID: "a", NotBefore: due})
	stop := s.run(2, func(_ context.Context, job jobs.Job) jobs.Result {
		lateness := time.Since(due)
		early, latest = min(early, lateness), max(latest, lateness)
		if job.Attempt != 1 {
			s.Errorf("attempt %d, want 1", job.Attempt)
		}
		if n++; n == 2 {
			close(done)
			return jobs.Result{}
		}
		due = time.Now().Add(wait)
		return jobs.Result{Verdict: jobs.Again, At: due, Err: errors.New("limited")}
	})
	select {
	case <-done:
	case <-time.After(patience): //nolint:forbidigo // a test
		s.Fatal("the job has not run twice")
	}
	stop()
	if early < 0 || latest > patience {
		s.Errorf("lateness was %v to %v, want 0 to %v", early, latest, patience)
	}
}

func (s *suite) limited() {
	s.enqueue(jobs.Job{ID: "a", MaxAttempts: 1})
	var seen record
	stop := s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		if seen.add(job) <= 10 {
			return jobs.Result{Verdict: jobs.Again, At: time.Now(), Err: errors.New("limited")}
		}
		return jobs.Result{}
	})
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 1 })
	stop()
	all, _ := seen.all()
	if len(all) != 11 || all[10].Attempt != 1 {
		s.Errorf("%d attempts, the last is number %d, want 11 and 1", len(all), all[len(all)-1].Attempt)
	}
	if i := s.inspect(); i.Failed != 0 {
		s.Errorf("queue = %+v", i)
	}
}

func (s *suite) attempts() {
	s.enqueue(jobs.Job{ID: "a", MaxAttempts: 3})
	var seen record
	stop := s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		seen.add(job)
		if job.Attempt == 3 {
			return jobs.Result{}
		}
		return jobs.Result{Verdict: jobs.Retry, At: time.Now(), Err: fmt.Errorf("failure %d", job.Attempt)}
	})
	s.await("three attempts", func(i jobs.QueueInfo) bool { return i.Processed == 3 })
	s.empty()
	stop()
	if all, _ := seen.all(); len(all) != 3 || all[0].Attempt != 1 || all[1].Attempt != 2 || all[2].Attempt != 3 {
		s.Errorf("attempts = %+v, want 1, 2, 3", all)
	}
}

func (s *suite) failed() {
	s.enqueue(jobs.Job{ID: "a", Payload: []byte("p"), Campaign: "c"})
	var works atomic.Bool
	var seen record
	stop := s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		seen.add(job)
		if works.Load() {
			return jobs.Result{}
		}
		return jobs.Result{Verdict: jobs.Fail, Err: errors.New("no such number")}
	})
	defer stop()
	s.await("failed", func(i jobs.QueueInfo) bool { return i.Failed == 1 })
	kept := s.list(jobs.Failed)
	if len(kept) != 1 || kept[0].ID != "a" || string(kept[0].Payload) != "p" || kept[0].Campaign != "c" || kept[0].LastError != "no such number" || kept[0].FailedAt.IsZero() {
		s.Fatalf("failed jobs = %+v", kept)
	}
	works.Store(true)
	s.must(s.engine.RunNow(s.Context(), s.queue, "a"))
	s.await("done", func(i jobs.QueueInfo) bool { return i.Failed == 0 && i.Pending+i.Active == 0 })
	if all, _ := seen.all(); len(all) != 2 || all[1].Attempt != 1 {
		s.Errorf("attempts = %+v", all)
	}
}

func (s *suite) replaced() {
	var seen record
	stop := s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		if seen.add(job); string(job.Payload) == "works" {
			return jobs.Result{}
		}
		return jobs.Result{Verdict: jobs.Fail, Err: errors.New("no such number")}
	})
	for i := range 2 {
		s.enqueue(jobs.Job{ID: "a", Payload: []byte("fails"), MaxAttempts: 3})
		s.await("failed", func(q jobs.QueueInfo) bool { return q.Processed == uint64(i+1) && q.Failed == 1 })
	}
	stop()
	var group sync.WaitGroup // one of them replaces it
	var added atomic.Int64
	for range 8 {
		group.Go(func() {
			switch err := s.try(jobs.Job{ID: "a", Payload: []byte("works"), Campaign: "c"}); {
			case err == nil:
				added.Add(1)
			case !errors.Is(err, jobs.ErrExists):
				s.Errorf("Enqueue = %v, want ErrExists", err)
			}
		})
	}
	group.Wait()
	if i := s.inspect(); added.Load() != 1 || i.Pending != 1 || i.Failed != 0 {
		s.Errorf("%d jobs were added, queue = %+v, want one", added.Load(), i)
	}
	if waiting := s.list(jobs.Pending); len(waiting) != 1 || waiting[0].Campaign != "c" || waiting[0].LastError != "" || waiting[0].Attempt != 1 {
		s.Errorf("pending jobs = %+v, want a new one", waiting)
	}
	s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		seen.add(job)
		return jobs.Result{}
	})
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 3 })
	s.empty()
	if all, _ := seen.all(); len(all) != 3 || string(all[2].Payload) != "works" || all[2].Attempt != 1 {
		s.Errorf("attempts = %+v, want 3, the last of a new job", all)
	}
}

func (s *suite) exists() {
	s.enqueue(jobs.Job{ID: "a"})
	s.enqueue(jobs.Job{ID: "b", Retain: time.Hour})
	if err := s.try(jobs.Job{ID: "a"}); !errors.Is(err, jobs.ErrExists) {
		s.Errorf("Enqueue = %v, want ErrExists", err)
	}
	s.run(2, func(context.Context, jobs.Job) jobs.Result { return jobs.Result{} })
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 2 })
	s.empty()
	s.enqueue(jobs.Job{ID: "a"})
	if err := s.try(jobs.Job{ID: "b"}); !errors.Is(err, jobs.ErrExists) {
		s.Errorf("Enqueue of a job that is done = %v, want ErrExists", err)
	}
	if done := s.list(jobs.Done); len(done) != 1 || done[0].ID != "b" || done[0].Retain != time.Hour {
		s.Errorf("done jobs = %+v, want b", done)
	}
	if err := s.engine.RunNow(s.Context(), s.queue, "b"); !errors.Is(err, jobs.ErrState) {
		s.Errorf("RunNow of a job that is done = %v, want ErrState", err)
	}
	s.must(s.engine.Delete(s.Context(), s.queue, "b"))
	s.enqueue(jobs.Job{ID: "b"})
}

// retained needs no process after the end of Retain.
func (s *suite) retained() {
	s.enqueue(jobs.Job{ID: "a", Retain: time.Millisecond})
	stop := s.run(1, func(context.Context, jobs.Job) jobs.Result { return jobs.Result{} })
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 1 })
	stop()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := s.try(jobs.Job{ID: "a"})
		if err == nil {
			return
		}
		if !errors.Is(err, jobs.ErrExists) || time.Now().After(end) {
			s.Fatalf("Enqueue after the end of Retain = %v", err)
		}
	}
}

func (s *suite) pause() {
	s.must(s.engine.Pause(s.Context(), s.queue))
	s.must(s.engine.Pause(s.Context(), s.queue)) // is the same
	s.enqueue(jobs.Job{ID: "a"})
	var seen record
	s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		seen.add(job)
		return jobs.Result{}
	})
	time.Sleep(300 * time.Millisecond)
	if i := s.inspect(); i.Pending != 1 || !i.Paused || !i.HeldUntil.IsZero() {
		s.Errorf("queue = %+v, want one pending job and a pause", i)
	}
	if all, _ := seen.all(); len(all) > 0 {
		s.Error("a paused queue has run a job")
	}
	s.must(s.engine.Resume(s.Context(), s.queue))
	s.must(s.engine.Resume(s.Context(), s.queue)) // does nothing
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 1 && !i.Paused })
}

func (s *suite) hold() {
	until := time.Now().Add(2 * time.Second)
	s.must(s.engine.Hold(s.Context(), s.queue, until))
	if at := s.inspect().HeldUntil; at.Sub(until).Abs() > time.Second {
		s.Errorf("HeldUntil is %v off", at.Sub(until))
	}
	s.enqueue(jobs.Job{ID: "a"})
	var seen record
	s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		seen.add(job)
		return jobs.Result{}
	})
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 1 && i.HeldUntil.IsZero() })
	if _, at := seen.all(); at[0].Before(until.Add(-5 * time.Millisecond)) { // the clock of the server is another one
		s.Errorf("the job ran %v before the end of the hold", until.Sub(at[0]))
	}
}

func (s *suite) merge() {
	later := time.Now().Add(time.Hour)
	s.must(s.engine.Hold(s.Context(), s.queue, later))
	s.must(s.engine.Hold(s.Context(), s.queue, time.Now().Add(time.Millisecond)))
	if at := s.inspect().HeldUntil; at.Sub(later).Abs() > patience {
		s.Errorf("a shorter hold has changed the end by %v", at.Sub(later))
	}
	s.must(s.engine.Pause(s.Context(), s.queue))
	s.must(s.engine.Hold(s.Context(), s.queue, time.Now().Add(50*time.Millisecond)))
	time.Sleep(200 * time.Millisecond)
	if i := s.inspect(); !i.Paused || !i.HeldUntil.IsZero() {
		s.Errorf("queue = %+v, want a pause that a hold does not end", i)
	}
	s.must(s.engine.Hold(s.Context(), s.queue, later))
	if i := s.inspect(); !i.Paused || !i.HeldUntil.IsZero() {
		s.Errorf("queue = %+v, want a pause that a hold does not replace", i)
	}
	s.must(s.engine.Resume(s.Context(), s.queue))
	if i := s.inspect(); i.Paused || !i.HeldUntil.IsZero() {
		s.Errorf("queue = %+v, want no pause", i)
	}
}

func (s *suite) drain() {
	s.enqueue(jobs.Job{ID: "a", MaxAttempts: 1})
	s.enqueue(jobs.Job{ID: "b"})
	started, release := make(chan struct{}), make(chan struct{})
	stop := s.run(1, func(ctx context.Context, _ jobs.Job) jobs.Result {
		close(started)
		<-release
		if ctx.Err() != nil {
			s.Error("the context of a handler ended with that of Run")
		}
		return jobs.Result{Verdict: jobs.Again, At: time.Now(), Err: context.Canceled}
	})
	<-started
	if err := s.engine.Delete(s.Context(), s.queue, "a"); !errors.Is(err, jobs.ErrState) {
		s.Errorf("Delete of an active job = %v, want ErrState", err)
	}
	if err := s.engine.RunNow(s.Context(), s.queue, "a"); !errors.Is(err, jobs.ErrState) {
		s.Errorf("RunNow of an active job = %v, want ErrState", err)
	}
	go func() {
		time.Sleep(200 * time.Millisecond)
		close(release)
	}()
	stop()
	if i := s.inspect(); i.Pending+i.Scheduled != 2 || i.Active != 0 || i.Stuck != 0 {
		s.Errorf("queue = %+v, want both jobs to wait", i)
	}
	var seen record
	s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		seen.add(job)
		return jobs.Result{}
	})
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 2 })
	all, _ := seen.all()
	for _, job := range all {
		if job.Attempt != 1 {
			s.Errorf("job %q has attempt %d, want 1", job.ID, job.Attempt)
		}
	}
}

func (s *suite) listed() {
	s.enqueue(jobs.Job{ID: "now"})
	later := time.Now().Add(time.Hour)
	s.enqueue(jobs.Job{ID: "later", NotBefore: later})
	s.enqueue(jobs.Job{ID: "soon", NotBefore: time.Now().Add(time.Minute)})
	if i := s.inspect(); i.Pending != 1 || i.Scheduled != 2 || i.Soon != 2 || i.Latency > patience {
		s.Errorf("queue = %+v, want 1 pending, 2 scheduled, 2 soon", i)
	}
	if all := s.list(jobs.Pending); len(all) != 1 || all[0].ID != "now" || !all[0].At.IsZero() {
		s.Errorf("pending = %+v", all)
	}
	all := s.list(jobs.Scheduled)
	if len(all) != 2 || all[0].ID != "soon" || all[1].ID != "later" || all[1].At.Sub(later).Abs() > 2*time.Second {
		s.Errorf("scheduled = %+v, want soon and later", all)
	}
	ctx := s.Context()
	if err := s.engine.RunNow(ctx, s.queue, "now"); !errors.Is(err, jobs.ErrState) {
		s.Errorf("RunNow of a pending job = %v, want ErrState", err)
	}
	if err := s.engine.RunNow(ctx, s.queue, "none"); !errors.Is(err, jobs.ErrNotFound) {
		s.Errorf("RunNow of no job = %v, want ErrNotFound", err)
	}
	if err := s.engine.Delete(ctx, s.queue+"None", "none"); !errors.Is(err, jobs.ErrNotFound) {
		s.Errorf("Delete in no queue = %v, want ErrNotFound", err)
	}
	s.must(s.engine.Delete(ctx, s.queue, "now"))
	s.must(s.engine.RunNow(ctx, s.queue, "later"))
	s.must(s.engine.Delete(ctx, s.queue, "soon"))
	s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		if job.ID != "later" {
			s.Errorf("job %q has run", job.ID)
		}
		return jobs.Result{}
	})
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 1 && i.Pending+i.Scheduled == 0 })
}

func (s *suite) concurrency() {
	for i := range 12 {
		s.enqueue(jobs.Job{ID: strconv.Itoa(i)})
	}
	var now, most atomic.Int64
	var once sync.Once
	all := make(chan struct{}) // closed when three run
	s.run(3, func(context.Context, jobs.Job) jobs.Result {
		for n := now.Add(1); ; {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		if most.Load() == 3 {
			once.Do(func() { close(all) })
		}
		select {
		case <-all:
		case <-time.After(patience): //nolint:forbidigo // a test
		}
		time.Sleep(10 * time.Millisecond)
		now.Add(-1)
		return jobs.Result{}
	})
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 12 })
	if most.Load() != 3 {
		s.Errorf("%d handlers ran at a time, want 3", most.Load())
	}
}

func (s *suite) bulkhead() {
	other := *s
	other.queue += "Other"
	s.must(s.engine.Hold(s.Context(), s.queue, time.Now().Add(time.Hour)))
	s.enqueue(jobs.Job{ID: "a"})
	other.enqueue(jobs.Job{ID: "a"})
	done := func(context.Context, jobs.Job) jobs.Result { return jobs.Result{} }
	s.run(1, done)
	other.run(1, done)
	other.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 1 })
	if i := s.inspect(); i.Pending != 1 {
		s.Errorf("queue = %+v, want one pending job", i)
	}
}

func (s *suite) place() {
	s.enqueue(jobs.Job{ID: "a"})
	s.enqueue(jobs.Job{ID: "b"})
	s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		if job.ID == "a" {
			return jobs.Result{Verdict: jobs.Again, At: time.Now().Add(time.Hour), Err: errors.New("limited")}
		}
		return jobs.Result{}
	})
	s.await("one done", func(i jobs.QueueInfo) bool { return i.Processed == 1 && i.Scheduled == 1 && i.Active == 0 })
}

func (s *suite) texts() {
	texts := map[string]string{"a": "bad \xff text", "b": strings.Repeat("\u00fc", 1<<16), "c": "", "d": "line\nline"}
	for id := range texts {
		s.enqueue(jobs.Job{ID: id, MaxAttempts: 2})
	}
	s.run(1, func(_ context.Context, job jobs.Job) jobs.Result {
		if job.Attempt == 1 {
			return jobs.Result{Verdict: jobs.Retry, At: time.Now(), Err: errors.New(texts[job.ID])}
		}
		return jobs.Result{Verdict: jobs.Fail, Err: errors.New(texts[job.ID])}
	})
	s.await("failed", func(i jobs.QueueInfo) bool { return i.Failed == len(texts) && i.Stuck == 0 })
}

func (s *suite) share() {
	for i := range 40 {
		s.enqueue(jobs.Job{ID: strconv.Itoa(i)})
	}
	var seen record
	for range 2 {
		s.run(2, func(_ context.Context, job jobs.Job) jobs.Result {
			seen.add(job)
			return jobs.Result{}
		})
	}
	s.await("done", func(i jobs.QueueInfo) bool { return i.Processed == 40 })
	s.empty()
	if all, _ := seen.all(); len(all) != 40 {
		s.Errorf("%d attempts, want 40", len(all))
	}
}

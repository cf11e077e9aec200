package asynqjobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

const patience = 30 * time.Second // on a machine that can be busy

// A suite is one test of an engine, with a queue of its own: the tests can run side by side.
type suite struct {
	*testing.T

	queue  groups.Queue
	name   string
	seen   []groups.Entry // attempts
	seenAt []time.Time
	mu     sync.Mutex
}

// Every engine keeps these promises: that in memory, whose time is that of a bubble, and that over Redis.
func TestEngines(t *testing.T) {
	t.Parallel()
	redis := start(t, asynqjobs.Config{})
	for name, f := range map[string]func(*suite){
		"handled once": (*suite).handledOnce, "never early": (*suite).neverEarly, "attempts": (*suite).attemptsOfJob,
		"failed": (*suite).failed, "replaced": (*suite).replaced, "exists": (*suite).exists, "retained": (*suite).retained,
		"paused": (*suite).paused, "held": (*suite).held, "stopped": (*suite).stopped, "listed": (*suite).listed, "due": (*suite).due,
		"concurrency": (*suite).concurrency, "full": (*suite).full, "full at once": (*suite).fullAtOnce, "texts": (*suite).texts, "place": (*suite).place,
		"run now": (*suite).runNow, "far away": (*suite).farAway,
	} {
		t.Run("memory/"+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(&suite{T: t, queue: groups.Open(jobs.Memory()), name: name}) })
		})
		t.Run("redis/"+name, func(t *testing.T) {
			t.Parallel()
			f(&suite{T: t, queue: groups.Open(redis.engine), name: name})
		})
	}
}

func (s *suite) try(j groups.Job) error {
	if j.Queue = s.name; j.MaxAttempts == 0 {
		j.MaxAttempts = 5
	}
	return s.queue.Enqueue(s.Context(), j, 1000)
}

func (s *suite) enqueue(j groups.Job) {
	s.Helper()
	require.NoError(s, s.try(j))
}

// run runs the queue until stop is called, which waits for the end.
func (s *suite) run(concurrency int, handle func(ctx context.Context, e groups.Entry) groups.Verdict) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.queue.Run(ctx, s.name, groups.Worker{Concurrency: concurrency, Handle: func(ctx context.Context, e groups.Entry) groups.Verdict {
			s.mu.Lock()
			s.seen, s.seenAt = append(s.seen, e), append(s.seenAt, time.Now())
			s.mu.Unlock()
			return handle(ctx, e)
		}})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	s.Cleanup(stop)
	return stop
}

func done(context.Context, groups.Entry) groups.Verdict { return groups.Verdict{} }

func (s *suite) attempts() []groups.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func (s *suite) inspect() groups.Counts {
	s.Helper()
	all, err := s.queue.Inspect(s.Context(), "none of "+s.name, s.name)
	require.NoError(s, err)
	require.Equal(s, groups.Counts{}, all[0])
	return all[1]
}

// wait waits for n attempts.
func (s *suite) wait(n int) {
	for end := time.Now().Add(patience); len(s.attempts()) < n && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// await waits until there were so many attempts, and the counts are as expected.
func (s *suite) await(n int, want groups.Counts) {
	s.Helper()
	var c groups.Counts
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		c = s.inspect()
		c.Oldest, c.Soon = time.Time{}, 0
		if len(s.attempts()) == n && c == want {
			return
		}
	}
	s.Fatalf("after %d attempts, queue = %+v, want %+v after %d", len(s.attempts()), c, want, n)
}

func (s *suite) list(state string) (all []groups.Entry) {
	s.Helper()
	for e, err := range s.queue.List(s.Context(), s.name, state) {
		require.NoError(s, err)
		require.Equal(s, state, e.State)
		all = append(all, e)
	}
	return all
}

func (s *suite) handledOnce() {
	special := groups.Job{
		ID: "a:{b}\u00fc", Campaign: "c: d", Payload: bytes.Repeat([]byte{0, 0xff, '{', ':'}, 1<<18), Meta: map[string]string{"": "x", "gresil-max": "\u00fc"},
		NotBefore: time.Now().Add(-time.Hour), MaxAttempts: -1, Retain: time.Nanosecond,
	}
	s.enqueue(special)
	for i := range 30 {
		s.enqueue(groups.Job{ID: strconv.Itoa(i)})
	}
	s.run(8, done)
	s.wait(31)
	ids := map[string]int{}
	for _, e := range s.attempts() {
		ids[e.ID]++
		require.Equal(s, []any{1, 0, s.name}, []any{e.Attempt, e.Losses, e.Queue})
		if e.ID == special.ID {
			require.True(s, e.NotBefore.Equal(special.NotBefore))
			e.NotBefore, special.Queue, special.Attempt = special.NotBefore, s.name, 1
			require.Equal(s, special, e.Job)
		}
	}
	require.Len(s, ids, 31)
	require.Len(s, s.attempts(), 31)
}

func (s *suite) neverEarly() {
	const wait = 1300 * time.Millisecond
	due := []time.Time{time.Now().Add(wait)}
	s.enqueue(groups.Job{ID: "a", NotBefore: due[0]})
	s.run(2, func(context.Context, groups.Entry) groups.Verdict {
		if len(due) == 3 {
			return groups.Verdict{}
		}
		due = append(due, time.Now().Add(time.Duration(2*len(due)-1)*wait)) // near, and not so near
		return groups.Verdict{End: groups.Limited, At: due[len(due)-1], Err: errors.New("limited")}
	})
	s.await(3, groups.Counts{})
	for i, at := range s.seenAt {
		require.False(s, at.Before(due[i]))
		require.Equal(s, 1, s.seen[i].Attempt)
	}
}

// attemptsOfJob are those of a job that is retried, and not those of one that is limited.
func (s *suite) attemptsOfJob() {
	s.enqueue(groups.Job{ID: "retried", Retain: time.Hour})
	s.run(1, func(_ context.Context, e groups.Entry) groups.Verdict {
		switch n := len(s.attempts()); {
		case e.ID == "retried" && e.Attempt < 3:
			return groups.Verdict{End: groups.Retried, At: time.Now(), Err: fmt.Errorf("failure %d", e.Attempt)}
		case e.ID == "limited" && n <= 13:
			return groups.Verdict{End: groups.Limited, At: time.Now(), Err: errors.New("limited")}
		}
		return groups.Verdict{}
	})
	s.await(3, groups.Counts{Done: 1})
	require.Equal(s, "failure 2", s.list("done")[0].LastError)
	s.enqueue(groups.Job{ID: "limited", MaxAttempts: 1})
	s.await(14, groups.Counts{Done: 1})
	require.Equal(s, 1, s.attempts()[13].Attempt)
}

// failed is a job that has failed: it is kept, and RunNow gives it all its attempts again.
func (s *suite) failed() {
	job := groups.Job{ID: "a", Payload: []byte("p"), Campaign: "c", Meta: map[string]string{"k": "v"}}
	s.enqueue(job)
	s.enqueue(groups.Job{ID: "later", NotBefore: time.Now().Add(time.Hour)})
	stop := s.run(1, func(_ context.Context, e groups.Entry) groups.Verdict {
		if e.Attempt == 1 {
			return groups.Verdict{End: groups.Retried, At: time.Now(), Err: errors.New("no route")}
		}
		return groups.Verdict{End: groups.Failed, Err: errors.New("no such number")}
	})
	for n := range 2 {
		s.await(2*n+2, groups.Counts{Failed: 1, Scheduled: 1})
		kept := s.list("failed")
		require.Len(s, kept, 1)
		require.Equal(s, []any{"a", []byte("p"), "c", job.Meta, "no such number", 3},
			[]any{kept[0].ID, kept[0].Payload, kept[0].Campaign, kept[0].Meta, kept[0].LastError, kept[0].Attempt})
		require.Len(s, s.list("scheduled"), 1)
		if n == 0 {
			require.NoError(s, s.queue.Control(s.Context(), s.name, groups.Retry, "a"))
		}
	}
	stop()
	require.NoError(s, s.queue.Control(s.Context(), s.name, groups.Retry, "later"))
	require.NoError(s, s.queue.Control(s.Context(), s.name, groups.Delete, "a"))
	require.Equal(s, 1, s.list("pending")[0].Attempt)
	s.await(4, groups.Counts{Pending: 1})
}

// runNow gives a job that waits for its next attempt all of its attempts again.
func (s *suite) runNow() {
	s.enqueue(groups.Job{ID: "a"})
	s.run(1, func(context.Context, groups.Entry) groups.Verdict {
		return groups.Verdict{End: groups.Retried, At: time.Now().Add(time.Hour), Err: errors.New("no route"), Made: true}
	})
	s.await(1, groups.Counts{Scheduled: 1})
	require.NoError(s, s.queue.Control(s.Context(), s.name, groups.Retry, "a"))
	s.await(2, groups.Counts{Scheduled: 1})
	require.Equal(s, 1, s.attempts()[1].Attempt)
}

// farAway is a job that waits for a very late time: it has not failed.
func (s *suite) farAway() {
	s.enqueue(groups.Job{ID: "a"})
	s.run(1, func(context.Context, groups.Entry) groups.Verdict {
		return groups.Verdict{End: groups.Limited, At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Err: errors.New("later")}
	})
	s.await(1, groups.Counts{Scheduled: 1})
	require.Len(s, s.list("scheduled"), 1)
	require.ErrorIs(s, s.try(groups.Job{ID: "a"}), groups.ErrExists)
}

// replaced is a failed job: one of those with its ID replaces it.
func (s *suite) replaced() {
	s.enqueue(groups.Job{ID: "a", Payload: []byte("fails")})
	stop := s.run(1, func(context.Context, groups.Entry) groups.Verdict {
		return groups.Verdict{End: groups.Failed, Err: errors.New("no such number")}
	})
	s.await(1, groups.Counts{Failed: 1})
	stop()
	var group sync.WaitGroup
	var added atomic.Int64
	for range 8 {
		group.Go(func() {
			switch err := s.try(groups.Job{ID: "a", Payload: []byte("works")}); {
			case err == nil:
				added.Add(1)
			case !errors.Is(err, groups.ErrExists):
				s.Errorf("Enqueue = %v, want ErrExists", err)
			}
		})
	}
	group.Wait()
	require.Equal(s, int64(1), added.Load())
	waiting := s.list("pending")
	require.Len(s, waiting, 1)
	require.Equal(s, []any{1, "", []byte("works")}, []any{waiting[0].Attempt, waiting[0].LastError, waiting[0].Payload})
	s.run(1, done)
	s.await(2, groups.Counts{})
	require.Equal(s, 1, s.attempts()[1].Attempt)
}

func (s *suite) exists() {
	s.enqueue(groups.Job{ID: "a"})
	s.enqueue(groups.Job{ID: "b", Retain: time.Hour})
	require.ErrorIs(s, s.try(groups.Job{ID: "a"}), groups.ErrExists)
	s.run(2, done)
	s.await(2, groups.Counts{Done: 1})
	s.enqueue(groups.Job{ID: "a"})
	require.ErrorIs(s, s.try(groups.Job{ID: "b"}), groups.ErrExists)
	kept := s.list("done")
	require.Len(s, kept, 1)
	require.Equal(s, time.Hour, kept[0].Retain)
	require.ErrorIs(s, s.queue.Control(s.Context(), s.name, groups.Retry, "b"), groups.ErrNotFound)
	require.NoError(s, s.queue.Control(s.Context(), s.name, groups.Delete, "b"))
	s.enqueue(groups.Job{ID: "b"})
}

// retained needs no process after the end of Retain.
func (s *suite) retained() {
	const retain = 300 * time.Millisecond
	s.enqueue(groups.Job{ID: "a", Retain: retain})
	stop := s.run(1, done)
	s.wait(1)
	stop()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := s.try(groups.Job{ID: "a"})
		if err == nil {
			require.GreaterOrEqual(s, time.Since(s.seenAt[0]), retain)
			return
		}
		require.ErrorIs(s, err, groups.ErrExists)
		require.True(s, time.Now().Before(end))
	}
}

func (s *suite) paused() {
	for range 2 {
		require.NoError(s, s.queue.Control(s.Context(), s.name, groups.Pause, ""))
	}
	require.NoError(s, s.queue.Hold(s.Context(), s.name, time.Now().Add(10*time.Millisecond))) // does not change it
	s.enqueue(groups.Job{ID: "a"})
	s.run(1, done)
	time.Sleep(300 * time.Millisecond)
	s.await(0, groups.Counts{Pending: 1, Paused: true})
	require.Less(s, time.Since(s.inspect().Oldest), patience)
	for range 2 {
		require.NoError(s, s.queue.Control(s.Context(), s.name, groups.Resume, ""))
	}
	s.await(1, groups.Counts{})
}

func (s *suite) held() {
	until := time.Now().Add(time.Second)
	for _, d := range []time.Duration{0, -time.Second, -time.Millisecond} { // a shorter one does not shorten it
		require.NoError(s, s.queue.Hold(s.Context(), s.name, until.Add(d)))
	}
	s.enqueue(groups.Job{ID: "a"})
	s.run(1, done)
	s.await(1, groups.Counts{})
	require.False(s, s.seenAt[0].Before(until.Add(-5*time.Millisecond))) // the clock of the server is another one
}

func (s *suite) stopped() {
	s.enqueue(groups.Job{ID: "a", MaxAttempts: 1})
	s.enqueue(groups.Job{ID: "b"})
	started, release := make(chan struct{}), make(chan struct{})
	stop := s.run(1, func(ctx context.Context, _ groups.Entry) groups.Verdict {
		close(started)
		<-release
		if ctx.Err() != nil {
			s.Error("the context of a handler ended with that of Run")
		}
		return groups.Verdict{End: groups.Limited, At: time.Now(), Err: context.Canceled}
	})
	<-started
	require.ErrorIs(s, s.queue.Control(s.Context(), s.name, groups.Delete, "a"), groups.ErrNotFound)
	require.ErrorIs(s, s.queue.Control(s.Context(), s.name, groups.Retry, "a"), groups.ErrNotFound)
	require.Len(s, s.list("active"), 1)
	go func() {
		time.Sleep(200 * time.Millisecond)
		close(release)
	}()
	stop()
	c := s.inspect()
	require.Equal(s, []int{2, 0}, []int{c.Pending + c.Scheduled, c.Active}) // both wait
	s.run(1, done)
	s.await(3, groups.Counts{})
	for _, e := range s.attempts() {
		require.Equal(s, 1, e.Attempt)
	}
}

func (s *suite) listed() {
	s.enqueue(groups.Job{ID: "now"})
	later := time.Now().Add(time.Hour)
	s.enqueue(groups.Job{ID: "later", NotBefore: later})
	s.enqueue(groups.Job{ID: "soon", NotBefore: time.Now().Add(50 * time.Second)})
	c := s.inspect()
	require.Equal(s, []int{1, 2, 1}, []int{c.Pending, c.Scheduled, c.Soon})
	pending, scheduled := s.list("pending"), s.list("scheduled")
	require.Len(s, pending, 1)
	require.True(s, pending[0].ID == "now" && pending[0].Due.IsZero())
	require.Len(s, scheduled, 2)
	require.Equal(s, []string{"soon", "later"}, []string{scheduled[0].ID, scheduled[1].ID})
	require.WithinDuration(s, later, scheduled[1].Due, 2*time.Second)
	ctx := s.Context()
	require.ErrorIs(s, s.queue.Control(ctx, s.name, groups.Retry, "now"), groups.ErrNotFound)
	require.ErrorIs(s, s.queue.Control(ctx, s.name, groups.Retry, "none"), groups.ErrNotFound)
	require.ErrorIs(s, s.queue.Control(ctx, s.name+"None", groups.Delete, "none"), groups.ErrNotFound)
	require.NoError(s, s.queue.Control(ctx, s.name, groups.Delete, "now"))
	require.NoError(s, s.queue.Control(ctx, s.name, groups.Retry, "later"))
	require.NoError(s, s.queue.Control(ctx, s.name, groups.Delete, "soon"))
	s.run(1, done)
	s.await(1, groups.Counts{})
	require.Equal(s, "later", s.attempts()[0].ID)
}

// due is a job whose time has come while no process runs its queue.
func (s *suite) due() {
	at := time.Now().Add(time.Second)
	s.enqueue(groups.Job{ID: "due", NotBefore: at})
	s.enqueue(groups.Job{ID: "later", NotBefore: time.Now().Add(time.Hour)})
	time.Sleep(2100 * time.Millisecond) // an engine can keep whole seconds
	c := s.inspect()
	require.Equal(s, []int{1, 1}, []int{c.Pending, c.Scheduled})
	require.WithinDuration(s, at, c.Oldest, time.Second)
	pending, scheduled := s.list("pending"), s.list("scheduled")
	require.Len(s, pending, 1)
	require.True(s, pending[0].ID == "due" && pending[0].Due.IsZero())
	require.Len(s, scheduled, 1)
	require.Equal(s, "later", scheduled[0].ID)
	s.run(1, done)
	s.await(1, groups.Counts{Scheduled: 1})
}

func (s *suite) concurrency() {
	for i := range 12 {
		s.enqueue(groups.Job{ID: strconv.Itoa(i)})
	}
	var now, top atomic.Int64
	all := make(chan struct{}) // closed when three run
	finish := sync.OnceFunc(func() { close(all) })
	s.run(3, func(context.Context, groups.Entry) groups.Verdict {
		n := now.Add(1)
		defer now.Add(-1)
		top.Store(max(top.Load(), n))
		if n == 3 {
			finish()
		}
		select {
		case <-all:
		case <-time.After(patience):
		}
		time.Sleep(10 * time.Millisecond)
		return groups.Verdict{}
	})
	s.await(12, groups.Counts{})
	require.Equal(s, int64(3), top.Load())
}

// full is a queue of failed jobs and others.
func (s *suite) full() {
	const most = 20
	try := func(id string, queue string) error {
		return s.queue.Enqueue(s.Context(), groups.Job{ID: id, Queue: queue, MaxAttempts: 1}, most)
	}
	for i := range 3 {
		require.NoError(s, try("f"+strconv.Itoa(i), s.name))
		lower := s.queue.Enqueue(s.Context(), groups.Job{ID: "lower", Queue: s.name, MaxAttempts: 1}, i+1) // SetConfig was called
		require.ErrorIs(s, lower, groups.ErrNoRoom)
	}
	kept := groups.Job{ID: "kept", Queue: s.name, MaxAttempts: 1, Retain: time.Hour}
	require.NoError(s, s.queue.Enqueue(s.Context(), kept, most))
	stop := s.run(1, func(_ context.Context, e groups.Entry) groups.Verdict {
		if e.ID == kept.ID {
			return groups.Verdict{}
		}
		return groups.Verdict{End: groups.Failed, Err: errors.New("no")}
	})
	s.await(4, groups.Counts{Failed: 3, Done: 1}) // a job that is done does not count
	stop()
	var err error
	n := 0
	for ; err == nil && n <= most; n++ {
		err = try(strconv.Itoa(n), s.name)
	}
	require.ErrorIs(s, err, groups.ErrNoRoom)
	require.Equal(s, most-3, n-1)
	require.NoError(s, try("a", "other than "+s.name))
	require.NoError(s, s.queue.Control(s.Context(), s.name, groups.Delete, "0"))
	require.NoError(s, try("again", s.name))
	require.ErrorIs(s, try("one more", s.name), groups.ErrNoRoom)
	require.ErrorIs(s, try("1", s.name), groups.ErrExists)
	require.NoError(s, try("f0", s.name), "it replaces the failed one")
	require.ErrorIs(s, try("f0", s.name), groups.ErrExists)
	require.ErrorIs(s, try("one more", s.name), groups.ErrNoRoom)
}

// fullAtOnce is a queue to which many add at once.
func (s *suite) fullAtOnce() {
	const most = 10
	try := func(i int) error {
		return s.queue.Enqueue(s.Context(), groups.Job{ID: strconv.Itoa(i), Queue: s.name, MaxAttempts: 1}, most)
	}
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			if err := try(i); err != nil && !errors.Is(err, groups.ErrNoRoom) {
				s.Errorf("Enqueue = %v, want ErrNoRoom", err)
			}
		})
	}
	group.Wait()
	require.Equal(s, most, s.inspect().Pending)
	require.ErrorIs(s, try(100), groups.ErrNoRoom)
}

// texts are those of errors that Redis, or asynq, cannot store.
func (s *suite) texts() {
	texts := map[string]string{"a": "bad \xff text", "b": strings.Repeat("\u00fc", 1<<16), "c": "", "d": "line\nline"}
	for id := range texts {
		s.enqueue(groups.Job{ID: id})
	}
	s.run(1, func(_ context.Context, e groups.Entry) groups.Verdict {
		if e.Attempt == 1 {
			return groups.Verdict{End: groups.Retried, At: time.Now(), Err: errors.New(texts[e.ID])}
		}
		return groups.Verdict{End: groups.Failed, Err: errors.New(texts[e.ID])}
	})
	s.await(2*len(texts), groups.Counts{Failed: len(texts)})
}

// place is that of a job that waits for long: another one has it.
func (s *suite) place() {
	s.enqueue(groups.Job{ID: "a"})
	s.enqueue(groups.Job{ID: "b"})
	s.run(1, func(_ context.Context, e groups.Entry) groups.Verdict {
		if e.ID == "a" {
			return groups.Verdict{End: groups.Limited, At: time.Now().Add(time.Hour), Err: errors.New("limited")}
		}
		return groups.Verdict{}
	})
	s.await(2, groups.Counts{Scheduled: 1})
}

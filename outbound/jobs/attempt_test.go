package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

// A rejection is an error of a mechanism that has not made the call; a refusal is one of the vendor.
type (
	rejection struct{ after time.Duration }
	refusal   struct{ after time.Duration }
)

func (r rejection) Error() string             { return "rejected" }
func (r rejection) Is(target error) bool      { return target == core.ErrRejected }
func (r rejection) RetryAfter() time.Duration { return r.after }
func (r refusal) Error() string               { return "refused" }
func (r refusal) RetryAfter() time.Duration   { return r.after }

// TestVerdict makes the first attempt of a job that has only one, and a second one that succeeds. The end of the first is as it is with
// and without a gate.
func TestVerdict(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, c := range map[string]struct {
		err   error
		end   groups.End
		after time.Duration
		most  time.Duration // if it is not exact
	}{
		"nil":                 {},
		"error":               {no, groups.Failed, 0, 0},
		"permanent":           {fmt.Errorf("call: %w", core.Permanent(no)), groups.Failed, 0, 0},
		"permanent rejection": {core.Permanent(rejection{time.Second}), groups.Failed, 0, 0},
		"RunAt":               {jobs.RunAt(time.Time{}), groups.Limited, 1500*time.Millisecond + 1, 0},
		"rejected":            {fmt.Errorf("call: %w", errors.Join(no, rejection{90 * time.Second})), groups.Limited, 90 * time.Second, 99 * time.Second},
		"rejected, no time":   {rejection{}, groups.Limited, 15 * time.Second, 0},
		"closed":              {gate.ErrClosed, groups.Limited, 15 * time.Second, 0},
		"full":                {gate.ErrFull, groups.Limited, 15 * time.Second, 0},
		"refused":             {fmt.Errorf("call: %w", refusal{time.Minute}), groups.Limited, time.Minute, 66*time.Second + 100*time.Millisecond},
		"refused, no time":    {refusal{}, groups.Limited, 15 * time.Second, 15*time.Second + 100*time.Millisecond},
		"panic":               {nil, groups.Failed, 0, 0},
		"another gate":        {&gate.LimitedError{Gate: "other", Err: no}, groups.Limited, 15 * time.Second, 0},
		"panic of GateCall":   {nil, groups.Failed, 0, 0},
		"timeout":             {nil, groups.Failed, 0, 0},
	} {
		for _, gated := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, gate %t", name, gated), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var at []time.Time
					q := jobs.Queue{Timeout: time.Second, Handler: func(ctx context.Context, job jobs.Job) error {
						require.Equal(t, 1, job.Attempt)
						at = append(at, time.Now())
						switch {
						case len(at) > 1:
							return nil
						case strings.HasPrefix(name, "panic") && c.err == nil:
							panic("x")
						case name == "RunAt":
							return fmt.Errorf("later: %w", jobs.RunAt(time.Now().Add(c.after)))
						case name == "timeout":
							<-ctx.Done()
							require.ErrorIs(t, context.Cause(ctx), timeout.ErrTimeout)
							return ctx.Err()
						}
						return c.err
					}}
					if gated {
						q.Gate = core.Must(gate.New(gate.Config{}))
					}
					if gated && name == "panic of GateCall" {
						q.GateCall = func(jobs.Job) gate.Call { panic("x") }
					}
					r, _ := start(t, q)
					enqueue(t, r, jobs.Job{MaxAttempts: 1})
					time.Sleep(time.Second)
					synctest.Wait()
					want := jobs.Stats{Enqueued: 1}
					*[]*uint64{&want.Succeeded, &want.Limited, &want.Retried, &want.Failed}[c.end] = 1
					require.Equal(t, want, r.Stats())
					time.Sleep(time.Hour)
					synctest.Wait()
					if c.end == groups.Limited {
						require.Len(t, at, 2)
						require.GreaterOrEqual(t, at[1].Sub(at[0]), c.after)
						require.LessOrEqual(t, at[1].Sub(at[0]), max(c.after, c.most))
					}
				})
			})
		}
	}
}

// An answer after which a call is never sent again ends its job, unless the handler says when to run it.
func TestVerdictOfLastAnswer(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, c := range map[string]struct {
		says gate.Signal
		err  error
		want jobs.Stats
	}{
		"permanent":          {gate.Signal{Limited: true, Permanent: true}, no, jobs.Stats{Failed: 1}},
		"executed":           {gate.Signal{Limited: true, Executed: true}, no, jobs.Stats{Failed: 1}},
		"permanent, ignored": {gate.Signal{Permanent: true}, nil, jobs.Stats{Succeeded: 1}},
		"permanent, RunAt":   {gate.Signal{Permanent: true}, jobs.RunAt(time.Time{}), jobs.Stats{Limited: 1, Succeeded: 1}},
		"an error":           {gate.Signal{}, no, jobs.Stats{Retried: 1, Succeeded: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				g := core.Must(gate.New(gate.Config{Classify: func(resp *http.Response, _ error) (s gate.Signal) {
					if resp != nil && sent == 1 {
						s = c.says
					}
					return s
				}}))
				rt := g.Transport(resiltest.NewScript(resiltest.Reply{Status: http.StatusPaymentRequired}, resiltest.Reply{}))
				r, _ := start(t, jobs.Queue{Gate: g, Handler: func(ctx context.Context, _ jobs.Job) error {
					sent++
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://vendor.test", nil)
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					if resp.StatusCode != http.StatusOK {
						return c.err
					}
					return nil
				}})
				enqueue(t, r, jobs.Job{})
				time.Sleep(time.Hour)
				synctest.Wait()
				c.want.Enqueued = 1
				require.Equal(t, c.want, r.Stats())
			})
		})
	}
}

// Jobs that were told one time do not return together.
func TestToldWaitIsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []float64
		begin := time.Now()
		r, _ := start(t, jobs.Queue{Concurrency: 200, Handler: func(context.Context, jobs.Job) error {
			mu.Lock()
			defer mu.Unlock()
			if at = append(at, time.Since(begin).Seconds()); len(at) <= 200 {
				return refusal{10 * time.Second}
			}
			return nil
		}})
		for range 200 {
			enqueue(t, r, jobs.Job{})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, at, 400)
		require.GreaterOrEqual(t, at[200], 10.0)
		require.Greater(t, at[399]-at[200], 0.8)
		require.Less(t, at[399], 11.1)
	})
}

// The defaults survive an outage of two and a half weeks.
func TestDefaultBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
			at = append(at, time.Now())
			return errors.New("no route")
		}}, unwatched)
		id := enqueue(t, r, jobs.Job{})
		for n := range 2 {
			time.Sleep(19 * 24 * time.Hour)
			synctest.Wait()
			require.Len(t, at, 25*(n+1))
			all := at[25*n:]
			require.Equal(t, 15*time.Second, all[1].Sub(all[0]))
			require.Equal(t, 30*time.Second, all[2].Sub(all[1]))
			require.Equal(t, 36*time.Hour, all[24].Sub(all[23]))
			require.Greater(t, all[24].Sub(all[0]), 17*24*time.Hour)
			require.Equal(t, jobs.QueueInfo{Failed: 1}, inspect(t, r))
			for info, err := range r.Jobs(t.Context(), "q", "") {
				require.NoError(t, err)
				require.Equal(t, []any{id, jobs.Failed, "no route"}, []any{info.ID, info.State, info.LastError})
			}
			require.NoError(t, r.RunNow(t.Context(), "q", id), "with all its attempts")
		}
	})
}

func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	for set, want := range map[int]int{0: 25, 1: 1, 2: 2, -1: 1000} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			r, _ := start(t, jobs.Queue{Backoff: backoff.Constant{}, Handler: func(context.Context, jobs.Job) error {
				if n++; n == 1000 {
					return nil
				}
				return errors.New("no")
			}})
			enqueue(t, r, jobs.Job{MaxAttempts: set})
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, want, n, "MaxAttempts %d", set)
		})
	}
}

// A job whose processes have ended fails without a further attempt.
func TestMaxDeliveries(t *testing.T) {
	t.Parallel()
	for set, most := range map[int]int{0: 5, 2: 2} {
		for losses := range 7 {
			synctest.Test(t, func(t *testing.T) {
				f := newFault()
				m := f.Queue
				f.run = func(ctx context.Context, queue string, w groups.Worker) {
					next := w.Handle
					w.Handle = func(ctx context.Context, e groups.Entry) groups.Verdict {
						e.Losses = losses
						return next(ctx, e)
					}
					m.Run(ctx, queue, w)
				}
				r, _ := start(t, jobs.Queue{MaxDeliveries: set, Handler: nothing}, f.engine)
				enqueue(t, r, jobs.Job{MaxAttempts: -1})
				synctest.Wait()
				require.Equal(t, losses >= most, r.Stats().Failed == 1)
				require.Equal(t, losses < most, r.Stats().Succeeded == 1)
			})
		}
	}
}

// A vendor counts what arrives in its pauses, later than 100 ms after their beginning.
type vendor struct {
	pauses func(n int) time.Duration // that begin with the call n, or 0

	mu          sync.Mutex
	from, until time.Time
	calls       int
	paused      time.Duration
	served      map[string]int
	inside      int
	flying, top int
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	now := time.Now()
	v.calls++
	paused := now.Before(v.until)
	if paused && now.Sub(v.from) > 100*time.Millisecond {
		v.inside++
	}
	if d := v.pauses(v.calls); !paused && d > 0 {
		v.from, v.until, paused = now, now.Add(d), true
		v.paused += d
	}
	if paused {
		w.Header().Set("Retry-After", strconv.FormatFloat(v.until.Sub(now).Seconds(), 'f', 9, 64))
		w.WriteHeader(http.StatusTooManyRequests)
		v.mu.Unlock()
		return
	}
	v.served[r.Header.Get("Idempotency-Key")]++
	v.flying++
	v.top = max(v.top, v.flying)
	v.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.flying--
}

// serve returns a client over a gate, and a handler that calls the vendor.
func (v *vendor) serve(t *testing.T, g *gate.Gate) func(ctx context.Context, job jobs.Job) error {
	t.Helper()
	v.served = map[string]int{}
	c := &http.Client{Transport: g.Transport(resiltest.Serve(t, resiltest.NewNetwork(), v).Transport())}
	return func(ctx context.Context, job jobs.Job) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://vendor.test/", http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Idempotency-Key", job.ID)
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return err
	}
}

// No call arrives in a told pause, none uses an attempt, and none takes a second slot. The full rate is served again soon.
func TestNoCallInsideToldPause(t *testing.T) {
	t.Parallel()
	limit := gate.Limit{N: 50, Per: time.Second}
	for name, cfg := range map[string]gate.Config{
		"by host": {InFlight: 20}, "limit": {Limits: []gate.Limit{limit}}, "limit and places": {Limits: []gate.Limit{limit}, InFlight: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := core.Must(gate.New(cfg))
				v := &vendor{pauses: func(n int) time.Duration {
					return []time.Duration{0, 3 * time.Second, 20 * time.Second}[n%100/98+n%100/99]
				}}
				r, stop := start(t, jobs.Queue{Gate: g, Concurrency: 30, Handler: v.serve(t, g)})
				const n = 600
				for i := range n {
					enqueue(t, r, jobs.Job{ID: fmt.Sprint(i), MaxAttempts: 1})
				}
				begin := time.Now()
				for r.Stats().Succeeded < n && time.Since(begin) < time.Hour {
					time.Sleep(time.Second)
				}
				stop()
				require.Zero(t, v.inside)
				require.Len(t, v.served, n)
				require.Equal(t, []uint64{n, 0, 0}, []uint64{r.Stats().Succeeded, r.Stats().Retried, r.Stats().Failed})
				require.EqualValues(t, v.calls, g.Stats().Sent)
				took := time.Since(begin) - v.paused
				t.Logf("%d calls in %v beside %v of pauses, %d jobs went back", v.calls, took, v.paused, r.Stats().Limited)
				if len(cfg.Limits) > 0 {
					require.Less(t, took, 16*time.Second, "it is 12.6 s at the full rate")
				}
			})
		})
	}
}

// While the vendor is held, few jobs are taken, and those of other accounts are.
func TestHeldVendor(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			limit := gate.Limit{Name: "account"}
			if keyed {
				limit.Key = gate.ByCall
			}
			g := core.Must(gate.New(gate.Config{Limits: []gate.Limit{limit}}))
			var calls atomic.Int64
			q := jobs.Queue{Gate: g, Handler: func(_ context.Context, job jobs.Job) error {
				if calls.Add(1) == 1 {
					return refusal{time.Hour}
				}
				return nil
			}}
			if keyed {
				q.GateCall = func(job jobs.Job) gate.Call { return gate.Call{Keys: map[string]string{"account": job.Campaign}} }
			}
			r, _ := start(t, q, func(c *jobs.Config) { c.Queues["other"] = jobs.Queue{Handler: nothing} })
			enqueue(t, r, jobs.Job{Campaign: "a"})
			synctest.Wait()
			time.Sleep(time.Second)
			for range 1000 {
				enqueue(t, r, jobs.Job{Campaign: "a"})
				enqueue(t, r, jobs.Job{Campaign: "b"})
				enqueue(t, r, jobs.Job{Queue: "other"})
			}
			time.Sleep(9 * time.Second)
			synctest.Wait()
			if keyed {
				require.EqualValues(t, 2000, r.Stats().Succeeded)
				require.Equal(t, 1001, inspect(t, r).Scheduled)
				time.Sleep(time.Minute)
				require.LessOrEqual(t, r.Stats().Limited, uint64(1001+70*50), "each look costs")
			} else {
				require.EqualValues(t, 1000, r.Stats().Succeeded, "the other queue")
				require.LessOrEqual(t, r.Stats().Limited, uint64(21), "two times 10")
				require.Equal(t, []int{2001, 0}, []int{inspect(t, r).Pending, inspect(t, r).Scheduled}, "they keep their order")
			}
			require.NoError(t, g.Resume(t.Context(), "", ""), "a person")
			time.Sleep(30 * time.Second)
			synctest.Wait()
			require.EqualValues(t, 3001, r.Stats().Succeeded, "also the one that was refused")
		})
	}
}

// Other calls go before those of jobs, also before those that a handler makes through a gate that its queue does not have.
func TestJobsAreBackground(t *testing.T) {
	t.Parallel()
	for _, inside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g, got := core.Must(gate.New(gate.Config{InFlight: 1})), ""
			q := jobs.Queue{Gate: g, Handler: func(context.Context, jobs.Job) error { got += "job "; return nil }}
			if inside {
				handler := q.Handler
				q = jobs.Queue{Handler: func(ctx context.Context, job jobs.Job) error {
					return g.Do(ctx, gate.Call{}, func(ctx context.Context) error { return handler(ctx, job) })
				}}
			}
			p, err := g.Wait(t.Context(), gate.Call{})
			require.NoError(t, err)
			r, _ := start(t, q)
			enqueue(t, r, jobs.Job{})
			synctest.Wait()
			go func() { _ = g.Do(t.Context(), gate.Call{}, func(context.Context) error { got += "call "; return nil }) }()
			synctest.Wait()
			p.Done(nil)
			synctest.Wait()
			require.Equal(t, "call job ", got)
		})
	}
}

// Jobs that their gate did not let pass keep their order.
func TestOrderBehindLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := core.Must(gate.New(gate.Config{Limits: []gate.Limit{{N: 1, Per: 30 * time.Second}}}))
		want, got := "", ""
		r, _ := start(t, jobs.Queue{Gate: g, Concurrency: 1, Handler: func(_ context.Context, job jobs.Job) error {
			got += job.ID
			return nil
		}})
		for id := 'a'; id < 'z'; id++ {
			want += enqueue(t, r, jobs.Job{ID: string(id)})
		}
		time.Sleep(13*time.Minute - 30*time.Second)
		synctest.Wait()
		require.Equal(t, want, got)
	})
}

// outage is an hour in which the vendor fails, or answers nothing but 429. The jobs arrive once each, and none has failed or is lost.
func outage(t *testing.T, n int) {
	t.Helper()
	for _, limited := range []bool{false, true} {
		t.Run(fmt.Sprintf("limited %t", limited), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				end, served := time.Now().Add(time.Hour), make([]int, n)
				told := errors.New("503")
				if limited {
					told = refusal{}
				}
				var mu sync.Mutex
				r, _ := start(t, jobs.Queue{Gate: core.Must(gate.New(gate.Config{})), Concurrency: 50, Handler: func(_ context.Context, job jobs.Job) error {
					time.Sleep(10 * time.Millisecond)
					if time.Now().Before(end) {
						return told
					}
					mu.Lock()
					defer mu.Unlock()
					i, err := strconv.Atoi(job.ID)
					served[i]++
					return err
				}}, unwatched)
				for i := range n {
					enqueue(t, r, jobs.Job{ID: strconv.Itoa(i)})
				}
				time.Sleep(3 * time.Hour)
				s := r.Stats()
				require.Equal(t, []uint64{uint64(n), 0}, []uint64{s.Succeeded, s.Failed})
				require.Equal(t, !limited, s.Retried > 0)
				for _, times := range served {
					require.Equal(t, 1, times)
				}
			})
		})
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	outage(t, 400)
}

// TestWaitInHandler makes jobs whose first call cannot be sent when its handler is called: only the request tells the key, or a connection
// is missing. After two seconds, or half of the Timeout, the job goes back, without an attempt, and its worker runs others.
func TestWaitInHandler(t *testing.T) {
	t.Parallel()
	type pool = gate.Pool[string, int]
	over := func(p *pool, fn func(ctx context.Context) error) func(context.Context, jobs.Job) error {
		return func(ctx context.Context, _ jobs.Job) error {
			_, err := gate.Do(ctx, p, "", func(ctx context.Context, _ int) (int, error) { return 0, fn(ctx) })
			return err
		}
	}
	for name, row := range map[string]struct {
		cfg gate.Config
		q   jobs.Queue
		// handler returns the handler, for a pool of one connection.
		handler func(t *testing.T, g *gate.Gate, p *pool) func(context.Context, jobs.Job) error
		want    []jobs.Stats // after 13 seconds, and after 2 minutes
	}{
		"held host": {
			q: jobs.Queue{Timeout: 30 * time.Second},
			handler: func(t *testing.T, g *gate.Gate, _ *pool) func(context.Context, jobs.Job) error {
				t.Helper()
				n := 0
				rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
					resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
					if n++; n == 1 {
						resp.StatusCode = http.StatusTooManyRequests
						resp.Header.Set("Retry-After", "25")
					} else if r.Host == "a.test" {
						sleep(r.Context(), 20*time.Second)
					}
					return resp, r.Context().Err()
				}))
				return func(ctx context.Context, job jobs.Job) error {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+job.ID+".test/", nil)
					if err != nil {
						return err
					}
					resp, err := (&http.Client{Transport: rt}).Do(req)
					if err == nil && resp.StatusCode != http.StatusOK {
						err = errors.New(resp.Status)
					}
					return err
				}
			},
			want: []jobs.Stats{{Enqueued: 2, Succeeded: 1, Limited: 2}, {Enqueued: 2, Succeeded: 2, Limited: 3}},
		},
		"no connection": {
			q: jobs.Queue{Timeout: time.Second},
			handler: func(t *testing.T, _ *gate.Gate, p *pool) func(context.Context, jobs.Job) error {
				t.Helper()
				go func() {
					_ = over(p, func(ctx context.Context) error { sleep(ctx, 12250*time.Millisecond); return nil })(t.Context(), jobs.Job{})
				}()
				synctest.Wait()
				return over(p, func(context.Context) error { return nil })
			},
			want: []jobs.Stats{{Enqueued: 2, Succeeded: 2, Limited: 9}, {Enqueued: 2, Succeeded: 2, Limited: 9}},
		},
		"call takes too long": {
			q: jobs.Queue{Timeout: 3 * time.Second},
			handler: func(_ *testing.T, _ *gate.Gate, p *pool) func(context.Context, jobs.Job) error {
				return over(p, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
			},
			want: []jobs.Stats{{Enqueued: 2, Failed: 1, Active: 1}, {Enqueued: 2, Failed: 2}},
		},
		"pool inside of itself": { // it would never have a connection
			handler: func(_ *testing.T, _ *gate.Gate, p *pool) func(context.Context, jobs.Job) error {
				inner := over(p, func(context.Context) error { return nil })
				return over(p, func(ctx context.Context) error { return inner(ctx, jobs.Job{}) })
			},
			want: []jobs.Stats{{Enqueued: 2, Failed: 2}, {Enqueued: 2, Failed: 2}},
		},
		"pages of a slow limit": { // only the first one is the call that has passed
			cfg: gate.Config{Limits: []gate.Limit{{N: 1, Per: 5 * time.Second}}},
			handler: func(t *testing.T, _ *gate.Gate, p *pool) func(context.Context, jobs.Job) error {
				t.Helper()
				refused := false
				return func(ctx context.Context, _ jobs.Job) error {
					rows := 0
					for row, err := range gate.Stream(ctx, p, "", 1, func(_ context.Context, _, page int) ([]int, int, error) {
						if page == 2 && !refused {
							refused = true
							return nil, 0, refusal{20 * time.Second}
						}
						return []int{page}, (page + 1) % 4, nil
					}) {
						if err != nil {
							return err
						}
						rows++
						require.Equal(t, rows, row)
					}
					return nil
				}
			},
			want: []jobs.Stats{{Enqueued: 2, Active: 1}, {Enqueued: 2, Succeeded: 2, Limited: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := core.Must(gate.New(row.cfg))
				p := core.Must(gate.NewPool(g, gate.PoolConfig[string, int]{
					Capacity: 1, IdleTime: -1, Dial: func(context.Context, string) (int, error) { return 0, nil },
				}))
				row.q.Gate, row.q.Concurrency, row.q.Handler = g, 1, row.handler(t, g, p)
				r, _ := start(t, row.q)
				enqueue(t, r, jobs.Job{ID: "a", MaxAttempts: 1})
				time.Sleep(11 * time.Second)
				enqueue(t, r, jobs.Job{ID: "b", MaxAttempts: 1})
				for i, d := range []time.Duration{2 * time.Second, 107 * time.Second} {
					time.Sleep(d)
					synctest.Wait()
					require.Equal(t, row.want[i], r.Stats())
				}
			})
		})
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// A handler settles the cost of its call under its context.
func TestJobIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := core.Must(gate.New(gate.Config{Limits: []gate.Limit{{Name: "tokens", N: 20, Per: time.Minute, Burst: 10}}}))
		handler := func(ctx context.Context, _ jobs.Job) error { return g.Settle(ctx, map[string]int64{"tokens": 0}) }
		q := jobs.Queue{Gate: g, Handler: handler, Concurrency: 1, GateCall: func(jobs.Job) gate.Call {
			return gate.Call{Costs: map[string]int64{"tokens": 10}}
		}}
		r, _ := start(t, q)
		for range 20 {
			enqueue(t, r, jobs.Job{})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 20, r.Stats().Succeeded)
	})
}

// A job whose gate does not say when it passes waits there for two seconds at most, so that other jobs of the queue have the worker.
func TestJobAtBusyGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := core.Must(gate.New(gate.Config{InFlight: 1}))
		p, err := g.Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		var ran atomic.Int64
		r, _ := start(t, jobs.Queue{Concurrency: 1, Gate: g, Handler: func(context.Context, jobs.Job) error { ran.Add(1); return nil }})
		enqueue(t, r, jobs.Job{})
		time.Sleep(10 * time.Second)
		require.NotZero(t, r.Stats().Limited)
		require.Zero(t, g.Stats().Sent)
		p.Done(nil)
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 1, ran.Load())
	})
}

package batch_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

func newBatcher(cfg config) (*batcher, error) { return batch.New(cfg) }

type limitedError time.Duration

func (e limitedError) Error() string             { return "limited" }
func (e limitedError) RetryAfter() time.Duration { return time.Duration(e) }

// What becomes of four records, by what Send returns. A letter is a record, and an upper-case one has failed.
func TestDelivery(t *testing.T) {
	down := errors.New("down")
	whole := func(errs ...error) func(context.Context, int, []record) ([]result, error) {
		return func(_ context.Context, n int, records []record) ([]result, error) {
			if n <= len(errs) {
				return nil, errs[n-1]
			}
			return all(records), nil
		}
	}
	some := func(of string, err error) func(context.Context, int, []record) ([]result, error) {
		return func(_ context.Context, _ int, records []record) ([]result, error) {
			results := all(records)
			for i, r := range records {
				if strings.Contains(of, r.Content) {
					results[i].Err = err
				}
			}
			return results, nil
		}
	}
	limitsOfRecords := func(_ context.Context, n int, records []record) ([]result, error) {
		results := all(records)
		if n < 6 {
			results[0].Err = limitedError(time.Second)
		}
		return results, nil
	}
	for name, row := range map[string]struct {
		answer func(context.Context, int, []record) ([]result, error)
		calls  []string
		failed string
		keys   int // different ones
		stats  batch.Stats
	}{
		"success": {answer: nil, calls: []string{"0 o: a b c d"}, keys: 1, stats: batch.Stats{Calls: 1, Sent: 4}},
		"error of the call": {
			answer: whole(down, down), keys: 1,
			calls: []string{"0 o: a b c d", "10 o: a b c d", "20 o: a b c d"}, stats: batch.Stats{Calls: 3, Sent: 4},
		},
		"attempts are used": {
			answer: whole(down, down, down), keys: 1, failed: "abcd",
			calls: []string{"0 o: a b c d", "10 o: a b c d", "20 o: a b c d"}, stats: batch.Stats{Calls: 3, Failed: 4},
		},
		"limits use none": {
			answer: whole(limitedError(3*time.Second), limitedError(0), core.ErrRejected, down, limitedError(time.Second), down, core.ErrRejected), keys: 1,
			calls: []string{
				"0 o: a b c d", "3 o: a b c d", "13 o: a b c d", "23 o: a b c d", "33 o: a b c d", "34 o: a b c d", "44 o: a b c d", "54 o: a b c d",
			},
			stats: batch.Stats{Calls: 8, Limited: 5, Sent: 4},
		},
		"permanent error of one record": {
			answer: func(_ context.Context, _ int, records []record) ([]result, error) {
				if slices.Contains(records, record{"o", "c"}) {
					return nil, core.Permanent(down)
				}
				return all(records), nil
			},
			calls: []string{"0 o: a b c d", "0 o: a b", "0 o: c d", "0 o: c", "0 o: d"}, failed: "c", keys: 5,
			stats: batch.Stats{Calls: 5, Split: 2, Sent: 3, Failed: 1},
		},
		"errors of records": {
			answer: some("bd", down), keys: 3, failed: "bd",
			calls: []string{"0 o: a b c d", "10 o: b d", "20 o: b d"}, stats: batch.Stats{Calls: 3, Sent: 2, Failed: 2},
		},
		"permanent errors of records": {
			answer: some("bd", fmt.Errorf("400: %w", core.Permanent(down))), keys: 1, failed: "bd",
			calls: []string{"0 o: a b c d"}, stats: batch.Stats{Calls: 1, Sent: 2, Failed: 2},
		},
		"permanent limits of records": {
			answer: some("b", core.Permanent(limitedError(time.Second))), keys: 1, failed: "b",
			calls: []string{"0 o: a b c d"}, stats: batch.Stats{Calls: 1, Sent: 3, Failed: 1},
		},
		"limits of records": {
			answer: limitsOfRecords,
			calls:  []string{"0 o: a b c d", "1 o: a", "2 o: a", "3 o: a", "4 o: a", "5 o: a"}, keys: 6,
			stats: batch.Stats{Calls: 6, Limited: 5, Sent: 4},
		},
		"limits of records, with a gate": {
			answer: limitsOfRecords,
			calls:  []string{"0 o: a b c d", "1 o: a", "2 o: a", "3 o: a", "4 o: a", "5 o: a"}, keys: 6,
			stats: batch.Stats{Calls: 6, Limited: 5, Sent: 4},
		},
		"different limits of records": {
			answer: func(_ context.Context, n int, records []record) ([]result, error) {
				results := all(records)
				if n == 1 {
					results[0].Err, results[1].Err = limitedError(10*time.Second), limitedError(time.Second)
				}
				return results, nil
			},
			calls: []string{"0 o: a b c d", "10 o: a b"}, keys: 2, stats: batch.Stats{Calls: 2, Limited: 1, Sent: 4},
		},
		"halves keep the attempts": {
			answer: func(_ context.Context, n int, _ []record) ([]result, error) {
				if n == 2 {
					return nil, core.Permanent(down)
				}
				return nil, down
			},
			calls:  []string{"0 o: a b c d", "10 o: a b c d", "10 o: a b", "10 o: c d", "20 o: a b", "20 o: c d"},
			failed: "abcd", keys: 3, stats: batch.Stats{Calls: 6, Split: 1, Failed: 4},
		},
		"panic": {
			answer: func(_ context.Context, n int, records []record) ([]result, error) {
				if n == 1 {
					panic(core.Permanent(down))
				}
				return all(records), nil
			},
			calls: []string{"0 o: a b c d", "0 o: a b", "0 o: c d"}, keys: 3, stats: batch.Stats{Calls: 3, Split: 1, Sent: 4},
		},
		"panic of GateCall": {calls: []string{"10 o: a b c d"}, keys: 1, stats: batch.Stats{Calls: 1, Sent: 4}},
		"timeout": {
			answer: func(ctx context.Context, n int, records []record) ([]result, error) {
				if n > 1 {
					return all(records), nil
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			},
			calls: []string{"0 o: a b c d", "15 o: a b c d"}, keys: 1, stats: batch.Stats{Calls: 2, Sent: 4},
		},
		"other number of results": {
			answer: func(_ context.Context, n int, records []record) ([]result, error) {
				return all(records[min(n, 2)-1:]), nil
			},
			calls: []string{"0 o: a b c d", "10 o: a b c d", "20 o: a b c d"}, keys: 1, failed: "abcd",
			stats: batch.Stats{Calls: 3, Failed: 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{answer: row.answer}
				if name == "other number of results" {
					v.answer = func(_ context.Context, _ int, records []record) ([]result, error) { return all(records)[1:], nil }
				}
				b := v.start(t, func(c *config) {
					c.FlushSize, c.MaxAttempts, c.Backoff, c.Timeout, c.Concurrency = 4, 3, backoff.Constant{Delay: 10 * time.Second}, 5*time.Second, 1
					if name == "limits of records, with a gate" {
						c.Gate = core.Must(gate.New(gate.Config{}))
					}
					if name == "panic of GateCall" {
						asked := 0
						c.Gate, c.GateCall = core.Must(gate.New(gate.Config{})), func(string, []record) gate.Call {
							if asked++; asked == 1 {
								panic("no")
							}
							return gate.Call{}
						}
					}
				})
				add(t, b, "o", "a", "b", "c", "d")
				time.Sleep(2 * time.Minute)
				var calls []string
				for _, text := range v.seen() { // a wait that was told is up to a tenth longer
					calls = append(calls, regexp.MustCompile(`\.\d+`).ReplaceAllString(text, ""))
				}
				require.Equal(t, row.calls, calls)
				keys := map[string]bool{}
				for _, c := range v.made() {
					require.NotEmpty(t, c.key)
					keys[c.key] = true
				}
				require.Len(t, keys, row.keys)
				row.stats.Added = 4
				require.Equal(t, row.stats, b.Stats())
				failed := ""
				for f, err := range b.Failed(t.Context(), "o") {
					require.NoError(t, err)
					require.NotEmpty(t, f.Err.Error())
					failed += f.Record.Content
				}
				require.Equal(t, row.failed, failed)
			})
		})
	}
	require.Empty(t, batch.IdempotencyKey(t.Context()))
}

// After an answer for which a call is never sent again, its records have failed: parts of the call are not sent either.
func TestDeliveryAfterLastAnswer(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		says gate.Signal
		wrap func(error) error
	}{
		"permanent":                     {gate.Signal{Permanent: true}, func(err error) error { return err }},
		"permanent, and Send says so":   {gate.Signal{Limited: true, Permanent: true}, core.Permanent},
		"executed":                      {gate.Signal{Limited: true, Executed: true}, func(err error) error { return err }},
		"executed, and permanent error": {gate.Signal{Busy: true, Executed: true}, core.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := core.Must(gate.New(gate.Config{Classify: func(resp *http.Response, _ error) (s gate.Signal) {
					if resp != nil {
						s = row.says
					}
					return s
				}}))
				post := posts(&http.Client{Transport: g.Transport(resiltest.NewScript(resiltest.Reply{Status: http.StatusPaymentRequired}))}, "")
				v := &vendor{answer: func(ctx context.Context, n int, records []record) ([]result, error) {
					_, err := post(ctx, n, records)
					return nil, row.wrap(err)
				}}
				b := v.start(t, func(c *config) { c.Gate, c.FlushSize = g, 4 })
				add(t, b, "o", "a", "b", "c", "d")
				time.Sleep(time.Hour)
				require.Equal(t, []string{"0 o: a b c d"}, v.seen())
				require.Equal(t, batch.Stats{Added: 4, Calls: 1, Failed: 4}, b.Stats())
			})
		})
	}
}

// A call that waits for its gate goes back to its group, and comes again before its time, so that others can pass and Flush, Pause,
// Delete and gate.Gate.Resume are felt.
func TestDeliveryWaitsForGate(t *testing.T) {
	keyed := func(option string, _ []record) gate.Call {
		return gate.Call{Keys: map[string]string{"account": option}}
	}
	for name, row := range map[string]struct {
		hold  time.Duration
		call  func(string, []record) gate.Call
		other string // the name of another gate, which refuses the call in Send
		after func(t *testing.T, b *batcher, g *gate.Gate)
		calls []string
	}{
		"key":          {hold: 100 * time.Second, call: keyed, calls: []string{"0 a: 1", "1 b: 2", "20 b: 3", "100 a: 1"}},
		"key, soon":    {hold: 50 * time.Second, call: keyed, calls: []string{"0 a: 1", "1 b: 2", "20 b: 3", "50 a: 1"}},
		"all":          {hold: 100 * time.Second, calls: []string{"0 a: 1", "100 a: 1", "100 b: 2", "100 b: 3"}},
		"all, soon":    {hold: 50 * time.Second, calls: []string{"0 a: 1", "50 a: 1", "50 b: 2", "50 b: 3"}},
		"another gate": {hold: 100 * time.Second, other: "other", calls: []string{"0 a: 1", "1 b: 2", "9 a: 1", "20 b: 3"}},
		"no Gate":      {hold: 100 * time.Second, other: "default", calls: []string{"0 a: 1", "1 b: 2", "9 a: 1", "20 b: 3"}},
		"resumed": {
			hold: 100 * time.Second,
			after: func(t *testing.T, _ *batcher, g *gate.Gate) {
				t.Helper()
				require.NoError(t, g.Resume(t.Context(), "", ""))
			},
			calls: []string{"0 a: 1", "9 a: 1", "9 b: 2", "20 b: 3"},
		},
		"deleted": {
			hold: 100 * time.Second, call: keyed,
			after: func(t *testing.T, b *batcher, _ *gate.Gate) {
				t.Helper()
				n, err := b.Delete(t.Context(), "a")
				require.NoError(t, err)
				require.Equal(t, 1, n)
			},
			calls: []string{"0 a: 1", "1 b: 2", "20 b: 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{answer: func(_ context.Context, n int, records []record) ([]result, error) {
					switch {
					case n == 1 && row.other != "":
						return nil, &gate.LimitedError{Gate: row.other, Until: time.Now().Add(row.hold)}
					case n == 1:
						return nil, limitedError(row.hold)
					}
					return all(records), nil
				}}
				limits := []gate.Limit{{Name: "account", Key: gate.ByCall}}
				if row.call == nil {
					limits = []gate.Limit{{Name: "all"}}
				}
				g := core.Must(gate.New(gate.Config{Limits: limits}))
				b := v.start(t, func(c *config) {
					if c.FlushSize, c.Concurrency, c.Gate, c.GateCall = 1, 1, g, row.call; name == "no Gate" {
						c.Gate = nil
					}
				})
				add(t, b, "a", "1")
				time.Sleep(time.Second)
				add(t, b, "b", "2")
				time.Sleep(6 * time.Second)
				if row.after != nil {
					row.after(t, b, g)
				}
				time.Sleep(13 * time.Second)
				add(t, b, "b", "3") // a call that waits keeps no place
				time.Sleep(5 * time.Minute)
				got := v.seen()
				for i, text := range got { // a second at most after it could be sent
					second, rest, _ := strings.Cut(text, " ")
					whole, _, _ := strings.Cut(second, ".")
					got[i] = whole + " " + rest
				}
				require.ElementsMatch(t, row.calls, got)
				require.Zero(t, b.Stats().Failed)
			})
		})
	}
}

// Send settles the cost of its call under its context.
func TestDeliveryIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := core.Must(gate.New(gate.Config{Limits: []gate.Limit{{Name: "tokens", N: 20, Per: time.Minute, Burst: 10}}}))
		v := &vendor{answer: func(ctx context.Context, _ int, records []record) ([]result, error) {
			return all(records), g.Settle(ctx, map[string]int64{"tokens": 0})
		}}
		b := v.start(t, func(c *config) {
			c.FlushSize, c.MaxRecords, c.Gate = 1, 1, g
			c.GateCall = func(string, []record) gate.Call { return gate.Call{Costs: map[string]int64{"tokens": 10}} }
		})
		for n := range 20 {
			add(t, b, "a", fmt.Sprint(n))
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, 20, v.count())
	})
}

// posts sends records to a host, by default that with the name of the option.
func posts(client *http.Client, host string) func(context.Context, int, []record) ([]result, error) {
	return func(ctx context.Context, _ int, records []record) ([]result, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+cmp.Or(host, records[0].Option)+".test/", http.NoBody)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return nil, errors.New(resp.Status)
		}
		return all(records), nil
	}
}

// A call whose key only its request tells waits in Send for two seconds at most, so that its Timeout is left, and calls of other keys can
// pass.
func TestDeliveryWaitsInSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := core.Must(gate.New(gate.Config{}))
		var n atomic.Int64
		base := resiltest.Serve(t, resiltest.NewNetwork(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 1 {
				w.Header().Set("Retry-After", "50")
				w.WriteHeader(http.StatusTooManyRequests)
			} else if r.Host == "a.test" {
				time.Sleep(40 * time.Second)
			}
		})).Transport()
		v := &vendor{answer: posts(&http.Client{Transport: g.Transport(base)}, "")}
		b := v.start(t, func(c *config) { c.Gate, c.FlushSize, c.Concurrency, c.MaxAttempts = g, 1, 1, 1 })
		add(t, b, "a", "1")
		time.Sleep(11 * time.Second)
		add(t, b, "b", "2")
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 1, b.Stats().Sent, "b")
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 2, b.Stats().Sent)
		require.Zero(t, b.Stats().Failed)
	})
}

// Requests that Send makes over the Transport of its Gate are the call that has passed: each call takes one slot, and none is sent
// inside of a pause that the vendor has asked for. One that a pause overtakes while it connects is not sent, and Send is called again later.
func TestNoCallInsidePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pause = 3 * time.Second
		var mu sync.Mutex
		var until time.Time
		arrived, served, inside, pauses := 0, 0, 0, 0
		begun := time.Now()
		base := resiltest.Serve(t, resiltest.NewNetwork(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			arrived++
			switch {
			case now.Before(until):
				if now.Sub(until.Add(-pause)) > 100*time.Millisecond {
					inside++
				}
				w.Header().Set("Retry-After", fmt.Sprintf("%.3f", until.Sub(now).Seconds()))
				w.WriteHeader(http.StatusTooManyRequests)
			case served >= 100*(pauses+1):
				pauses++
				until = now.Add(pause)
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(http.StatusTooManyRequests)
			default:
				served++
			}
		})).Transport()
		dial := base.DialContext
		base.DialContext = func(ctx context.Context, n, addr string) (net.Conn, error) {
			time.Sleep(300 * time.Millisecond)
			return dial(ctx, n, addr)
		}
		base.MaxIdleConnsPerHost = 4
		g := core.Must(gate.New(gate.Config{Limits: []gate.Limit{{Name: "all", N: 60, Per: time.Second}}, InFlight: 20}))
		v := &vendor{answer: posts(&http.Client{Transport: g.Transport(base)}, "vendor")}
		b := v.start(t, func(c *config) { c.Gate, c.MaxRecords, c.Concurrency = g, 2, 30 })
		for i := range 2000 {
			add(t, b, fmt.Sprint(i%5), fmt.Sprint(i))
		}
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(3 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Zero(t, inside)
		require.Equal(t, 9, pauses)
		require.Equal(t, 1000, served)
		require.EqualValues(t, 2000, b.Stats().Sent)
		require.EqualValues(t, arrived, g.Stats().Sent, "one slot for one call")
		require.GreaterOrEqual(t, b.Stats().Calls, g.Stats().Sent)
		require.Zero(t, b.Stats().Failed)
		calls := v.made()
		last := calls[len(calls)-1].at
		require.Less(t, last, 9*pause+1000*20*time.Millisecond+9*3*time.Second, "the limit is used between pauses: %v", time.Since(begun))
	})
}

// A record that ends its process takes no other one with it: after two deaths the call is halved, and the record that is left has
// failed after MaxDeliveries, also if a limit makes it wait between two deaths. Each half runs alone.
func TestDeliveryOfPoison(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]gate.Limit{nil, {{N: 1, Per: 10 * time.Second}}} {
		synctest.Test(t, func(t *testing.T) { poison(t, core.Must(gate.New(gate.Config{Limits: limits}))) })
	}
}

func poison(t *testing.T, g *gate.Gate) {
	t.Helper()
	q, s := groups.Open(jobs.Memory()), groups.NewMemory()
	end := make(chan struct{})
	defer close(end)
	dying := &dyingQueue{Queue: q}
	v := &vendor{answer: func(_ context.Context, _ int, records []record) ([]result, error) {
		if slices.Contains(records, record{"a", "13"}) {
			dying.died.Store(true)
			<-end
		}
		return all(records), nil
	}}
	b := v.start(t, func(c *config) {
		c.Gate, c.Engine, c.Concurrency, c.FlushSize, c.MaxRecords = g, groups.NewEngine(dying, s), 100, 20, 20 // handlers of dead processes count here
	})
	for i := range 20 {
		add(t, b, "a", fmt.Sprint(i))
	}
	time.Sleep(time.Hour)
	require.Equal(t, batch.Stats{Added: 20, Calls: b.Stats().Calls, Limited: b.Stats().Limited, Split: b.Stats().Split, Sent: 19, Failed: 1}, b.Stats())
	require.EqualValues(t, 2+3+3, dying.deaths.Load(), "two of all, one of each half, and three of the record alone")
	require.True(t, dying.alone.Load())
	for f, err := range b.Failed(t.Context(), "a") {
		require.NoError(t, err)
		require.Equal(t, "13", f.Record.Content)
		require.ErrorContains(t, f.Err, "5 processes ended")
	}
}

// A dyingQueue stands for processes that die: it forgets a handler that has said so, and delivers its job again.
type dyingQueue struct {
	groups.Queue

	died   atomic.Bool
	deaths atomic.Int64
	alone  atomic.Bool // jobs after two deaths
}

func (q *dyingQueue) Enqueue(ctx context.Context, j groups.Job, most int) error {
	if q.deaths.Load() >= 2 {
		q.alone.Store(j.Meta[groups.Suspect] != "")
	}
	return q.Queue.Enqueue(ctx, j, most)
}

func (q *dyingQueue) Run(ctx context.Context, queue string, w groups.Worker) {
	var losses sync.Map
	handle := w.Handle
	w.Handle = func(ctx context.Context, e groups.Entry) groups.Verdict {
		if n, ok := losses.Load(e.ID); ok {
			e.Losses, _ = n.(int)
		}
		verdict := make(chan groups.Verdict, 1)
		go func() { verdict <- handle(ctx, e) }()
		for {
			select {
			case v := <-verdict:
				return v
			case <-time.After(time.Millisecond):
				if q.died.CompareAndSwap(true, false) {
					q.deaths.Add(1)
					losses.Store(e.ID, e.Losses+1)
					return groups.Verdict{End: groups.Limited, At: time.Now().Add(time.Second)}
				}
			}
		}
	}
	q.Queue.Run(ctx, queue, w)
}

func (q *dyingQueue) List(ctx context.Context, queue, state string) iter.Seq2[groups.Entry, error] {
	return q.Queue.List(ctx, queue, state)
}

// A call that has lost a process waits for its gate only shortly, as it runs alone; that is forgotten when it has been made.
func TestDeliveryAfterLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(_ context.Context, n int, records []record) ([]result, error) {
			if n == 3 {
				return nil, errNo
			}
			return all(records), nil
		}}
		q := &lossyQueue{Queue: groups.Open(jobs.Memory())}
		b := v.start(t, func(c *config) {
			c.Engine, c.FlushSize, c.Concurrency = groups.NewEngine(q, groups.NewMemory()), 1, 1
			c.Gate = core.Must(gate.New(gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall, N: 1, Per: 40 * time.Second}}}))
			c.GateCall = func(option string, _ []record) gate.Call {
				return gate.Call{Keys: map[string]string{"account": option}}
			}
		})
		add(t, b, "a", "1")
		synctest.Wait()
		q.losses.Store(1)
		add(t, b, "a", "2")
		time.Sleep(time.Second)
		add(t, b, "b", "3")
		time.Sleep(3 * time.Second)
		require.Equal(t, []string{"0 a: 1", "1 b: 3"}, v.seen()[:2])
		time.Sleep(5 * time.Minute)
		calls := v.made()
		require.Len(t, calls, 4)
		require.Equal(t, calls[2].key, calls[3].key)
		require.Equal(t, []string{"", "1", ""}, slices.Compact(q.suspects))
	})
}

// Other calls go before those of a batch.
func TestBatchesAreBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, got := core.Must(gate.New(gate.Config{InFlight: 1})), ""
		v := &vendor{answer: func(_ context.Context, _ int, records []record) ([]result, error) {
			got += "batch "
			return all(records), nil
		}}
		b := v.start(t, func(c *config) { c.Gate, c.FlushSize = g, 1 })
		p, err := g.Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		add(t, b, "a", "1")
		synctest.Wait()
		go func() { _ = g.Do(t.Context(), gate.Call{}, func(context.Context) error { got += "call "; return nil }) }()
		synctest.Wait()
		p.Done(nil)
		synctest.Wait()
		require.Equal(t, "call batch ", got)
	})
}

// A lossyQueue says that processes ended during an attempt, and notes which jobs are suspect.
type lossyQueue struct {
	groups.Queue

	losses   atomic.Int64
	suspects []string
}

func (q *lossyQueue) Enqueue(ctx context.Context, j groups.Job, most int) error {
	q.suspects = append(q.suspects, j.Meta[groups.Suspect])
	return q.Queue.Enqueue(ctx, j, most)
}

func (q *lossyQueue) Run(ctx context.Context, queue string, w groups.Worker) {
	handle := w.Handle
	w.Handle = func(ctx context.Context, e groups.Entry) groups.Verdict {
		e.Losses = int(q.losses.Swap(0))
		return handle(ctx, e)
	}
	q.Queue.Run(ctx, queue, w)
}

// A process that has lost its job gives nothing back that another process is sending, but notes what it has sent.
func TestDeliveryAfterLease(t *testing.T) {
	for name, row := range map[string]struct {
		first []result // of the delivery that has lost its lease; nil: it is canceled
		want  []string
	}{
		"canceled":                     {nil, []string{"60 a: 1 2", "61 a: 1 2"}},
		"answered":                     {all([]record{{}, {}}), []string{"60 a: 1 2", "61 a: 1 2"}},
		"a record is to be sent again": {[]result{{}, {Err: errors.New("not yet")}}, []string{"60 a: 1 2", "61 a: 1 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{answer: func(ctx context.Context, n int, records []record) ([]result, error) {
					if n == 1 && row.first == nil {
						<-ctx.Done()
						return nil, context.Cause(ctx)
					}
					if time.Sleep(10 * time.Second); n == 1 {
						return row.first, nil
					}
					return all(records), nil
				}}
				b := v.start(t, func(c *config) {
					c.Engine = groups.NewEngine(&expiringQueue{Queue: groups.Open(jobs.Memory())}, groups.NewMemory())
				})
				add(t, b, "a", "1", "2")
				time.Sleep(5 * time.Minute)
				require.Equal(t, row.want, v.seen())
				require.Equal(t, batch.Stats{Added: 2, Calls: 2, Sent: 2}, b.Stats())
			})
		})
	}
}

// An expiringQueue delivers its first job again a second later, as to another process, and then ends the context of the first delivery.
type expiringQueue struct {
	groups.Queue

	expired atomic.Bool
}

func (q *expiringQueue) Run(ctx context.Context, queue string, w groups.Worker) {
	handle := w.Handle
	w.Handle = func(ctx context.Context, e groups.Entry) groups.Verdict {
		if q.expired.Swap(true) {
			return handle(ctx, e)
		}
		first, end := context.WithCancel(ctx)
		var deliveries sync.WaitGroup
		defer deliveries.Wait()
		deliveries.Go(func() { handle(first, e) })
		time.Sleep(time.Second)
		time.AfterFunc(time.Second, end)
		second := e
		second.Losses = 1
		return handle(ctx, second)
	}
	q.Queue.Run(ctx, queue, w)
}

// A call that waits for its gate when its process stops has used no attempt.
func TestDeliveryWhileStopping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		b := core.Must(newBatcher(v.config(func(c *config) {
			c.FlushSize, c.MaxAttempts = 1, 1
			c.Gate = core.Must(gate.New(gate.Config{Limits: []gate.Limit{{N: 1, Per: 40 * time.Second}}}))
		})))
		stop := run(t, b)
		add(t, b, "a", "1")
		synctest.Wait()
		add(t, b, "a", "2")
		time.Sleep(time.Second)
		begun := time.Now()
		stop()
		require.Zero(t, time.Since(begun))
		run(t, b)
		time.Sleep(time.Minute)
		require.Equal(t, batch.Stats{Added: 2, Calls: 2, Sent: 2}, b.Stats())
	})
}

// A batch whose job is lost comes back, and one that comes back without that is sent once.
func TestDeliveryWithoutJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(_ context.Context, _ int, records []record) ([]result, error) {
			time.Sleep(time.Second)
			return all(records), nil
		}}
		b := v.start(t, func(c *config) {
			c.Engine, c.FlushSize = groups.NewEngine(&losingQueue{Queue: groups.Open(jobs.Memory())}, &repeating{Store: groups.NewMemory()}), 1
			c.Registry = eventtest.Registry(func(_ context.Context, e registry.Event) { assert.False(t, e.Outage, e) })
		})
		add(t, b, "a", "1", "2")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"0 a: 1 2"}, v.seen())
		add(t, b, "a", "3")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"0 a: 1 2", "60 a: 3"}, v.seen())
	})
}

// A losingQueue loses the first job.
type losingQueue struct {
	groups.Queue

	lost atomic.Bool
}

func (q *losingQueue) Enqueue(ctx context.Context, j groups.Job, most int) error {
	if q.lost.CompareAndSwap(false, true) {
		return nil
	}
	return q.Queue.Enqueue(ctx, j, most)
}

// A repeating store gives each batch twice.
type repeating struct {
	groups.Store

	last groups.Batch
}

func (s *repeating) Take(ctx context.Context, queue string, t groups.Terms) (b groups.Batch, state groups.State, err error) {
	b = s.last
	s.last = groups.Batch{}
	if b.ID == "" {
		b, state, err = s.Store.Take(ctx, queue, t)
		s.last = b
	}
	return b, state, err
}

// Records of another program, or of an older type, fail alone.
func TestDeliveryOfForeignRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, s := groups.Open(jobs.Memory()), groups.NewMemory()
		v := &vendor{}
		b := v.start(t, func(c *config) { c.Engine = groups.NewEngine(q, s) })
		add(t, b, "a", "1")
		_, _, err := s.Add(t.Context(), "batch:vendor", groups.Record{ID: "x", Group: "a", Payload: []byte("{")}, groups.Rules{MaxPending: 10})
		require.NoError(t, err)
		add(t, b, "a", "2")
		require.NoError(t, b.Flush(t.Context()))
		synctest.Wait()
		require.Equal(t, []string{"0 a: 1 2"}, v.seen())
		r, done, err := b.Result(t.Context(), "x")
		require.NoError(t, err)
		require.True(t, done)
		require.ErrorContains(t, r.Err, "cannot be decoded")
	})
}

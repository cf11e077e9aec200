package gate_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/escalating"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

const (
	openTime   = 15 * time.Second
	pauseTime  = 3 * time.Second
	answerTime = 50 * time.Millisecond
	pardon     = 100 * time.Millisecond // for calls that were on their way
)

// A vendor judges by its own clock. After some time without a pause, it asks for one.
type vendor struct {
	tell   func(h http.Header, now time.Time, pause time.Duration) (status int, read time.Duration)
	status func() gate.Stats // of the client, at the beginning of a pause
	pauses int               // that are left
	busy   int               // calls that are being answered when a pause begins
	trip   time.Duration     // to the Store

	mu             sync.Mutex
	from, until    time.Time // of the pause
	arrived        []time.Time
	served, inside int
	answering      int
	firsts         []time.Duration // from the end of a pause to the next call
	ends           []time.Time
	dialing        atomic.Int64
	stages         [4]int // queued, admitted, connecting, being answered: when pauses began
}

func (v *vendor) arrive(h http.Header) (status int) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.arrived = append(v.arrived, now)
	paused := now.Before(v.until)
	if paused && now.Sub(v.from) > pardon+v.trip {
		v.inside++
	}
	if !paused && len(v.ends) > len(v.firsts) {
		v.firsts = append(v.firsts, now.Sub(v.until))
		v.ends[len(v.ends)-1] = v.until
	}
	if !paused && v.pauses > 0 && v.answering >= v.busy && now.Sub(v.until) > openTime {
		s := v.status()
		for i, n := range []int{s.Waiting, s.InFlight, int(v.dialing.Load()), v.answering} {
			v.stages[i] += n
		}
		v.pauses--
		v.from, v.until = now, now.Add(pauseTime)
		v.ends = append(v.ends, v.until)
		paused = true
	}
	if !paused {
		v.served++
		v.answering++
		return http.StatusOK
	}
	status, read := v.tell(h, now, v.until.Sub(now))
	v.until = later(v.until, now.Add(read))
	return status
}

// most returns the most calls, or units, in any half-open period.
func most(at []time.Time, units []int64, per time.Duration) (n int64) {
	for i := range at {
		sum := int64(0)
		for j := i; j < len(at) && at[j].Sub(at[i]) < per; j++ {
			if units == nil {
				sum++
			} else {
				sum += units[j]
			}
		}
		n = max(n, sum)
	}
	return n
}

// leastRate returns the lowest rate of all open times, from 5 s after their begin on.
func (v *vendor) leastRate() float64 {
	least := math.Inf(1)
	for i, end := range v.ends[:len(v.ends)-1] {
		from, to := end.Add(5*time.Second), v.ends[i+1].Add(-pauseTime-time.Second)
		n := 0
		for _, at := range v.arrived {
			if !at.Before(from) && at.Before(to) {
				n++
			}
		}
		least = min(least, float64(n)/to.Sub(from).Seconds())
	}
	return least
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := v.arrive(w.Header())
	if status == http.StatusOK {
		v.answer()
	}
	w.WriteHeader(status)
}

func (v *vendor) answer() {
	time.Sleep(answerTime)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answering--
}

func seconds(status int) func(h http.Header, _ time.Time, pause time.Duration) (int, time.Duration) {
	return func(h http.Header, _ time.Time, pause time.Duration) (int, time.Duration) {
		n := int((pause + time.Second - 1) / time.Second)
		h.Set("Retry-After", strconv.Itoa(n))
		return status, time.Duration(n) * time.Second
	}
}

// date cuts to the second, in Date as well.
func date(h http.Header, now time.Time, pause time.Duration) (int, time.Duration) {
	date, until := now.UTC().Truncate(time.Second), now.Add(pause).UTC().Truncate(time.Second)
	h.Set("Date", date.Format(http.TimeFormat))
	h.Set("Retry-After", until.Format(http.TimeFormat))
	return http.StatusTooManyRequests, until.Sub(date) + time.Second
}

// silent tells nothing: the pause is that of the Backoff.
func silent(http.Header, time.Time, time.Duration) (int, time.Duration) {
	return http.StatusTooManyRequests, pauseTime
}

// A refusal is the error of a call that is not HTTP.
type refusal struct{ wait time.Duration }

func (refusal) Error() string               { return "refused" }
func (r refusal) RetryAfter() time.Duration { return r.wait }

// call is a call without HTTP.
func (v *vendor) call() error {
	h := http.Header{}
	if v.arrive(h) == http.StatusOK {
		v.answer()
		return nil
	}
	n, _ := strconv.Atoi(h.Get("Retry-After"))
	return refusal{time.Duration(n) * time.Second}
}

// A load makes size calls at once, again and again.
type load struct {
	size  int
	every time.Duration
}

// untraced hides the trace of a request from its transport.
type untraced struct{ context.Context }

func (u untraced) Value(key any) any {
	v := u.Context.Value(key)
	if _, ok := v.(*httptrace.ClientTrace); ok {
		return nil
	}
	return v
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A world is one vendor, one gate, and a network between them.
type world struct {
	*testing.T
	v    *vendor
	g    *gate.Gate
	base *http.Transport
}

// send makes a request.
func (w *world) send(rt http.RoundTripper) func(context.Context) error {
	c := &http.Client{Transport: rt}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vendor.test/", nil)
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		_, err = io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		return err
	}
}

// newWorld makes one in a bubble.
func newWorld(t *testing.T, v *vendor, cfg gate.Config, dial time.Duration, http2 bool) *world {
	t.Helper()
	w := &world{T: t, v: v, g: core.Must(gate.New(cfg))}
	v.status = w.g.Stats
	v.until = time.Now()
	network := resiltest.NewNetwork()
	w.base = resiltest.Serve(t, network, v).Transport()
	w.base.DialContext = func(ctx context.Context, net_, addr string) (net.Conn, error) {
		v.dialing.Add(1)
		defer v.dialing.Add(-1)
		time.Sleep(max(dial, time.Microsecond)) // so that it is seen
		return network.DialContext(ctx, net_, addr)
	}
	if http2 {
		w.base.Protocols = resiltest.HTTP2()
	} else {
		w.base.DisableKeepAlives = dial > 0
	}
	return w
}

// run makes the load until the vendor has had its pauses, and some time more.
func (w *world) run(l load, one func(context.Context) error) {
	var group sync.WaitGroup
	for {
		for range l.size {
			group.Go(func() {
				if err := one(w.Context()); err != nil {
					w.Errorf("a call has failed: %v", err)
				}
			})
		}
		time.Sleep(l.every)
		w.v.mu.Lock()
		done := w.v.pauses == 0 && time.Since(w.v.until) > openTime
		w.v.mu.Unlock()
		if done {
			break
		}
	}
	group.Wait()
	if err := w.g.Close(w.Context()); err != nil {
		w.Error(err)
	}
}

// shared returns a call that is made by each of four processes in turn.
func (w *world) shared(row setup) func(context.Context) error {
	gates, _ := gatesOf(w.T, newRedis(row.trip), 4, row.cfg)
	var calls []func(context.Context) error
	for _, g := range gates {
		calls = append(calls, row.call(&world{w.T, w.v, g, w.base}))
	}
	w.Cleanup(func() { closeAll(gates) })
	w.v.status = func() (s gate.Stats) {
		for _, g := range gates {
			s.Waiting += g.Stats().Waiting
			s.InFlight = max(s.InFlight, g.Stats().InFlight)
		}
		return s
	}
	var n atomic.Int64
	return func(ctx context.Context) error { return calls[n.Add(1)%4](ctx) }
}

type setup struct {
	tell   func(h http.Header, now time.Time, pause time.Duration) (int, time.Duration)
	cfg    gate.Config
	load   load
	busy   int
	dial   time.Duration
	http2  bool
	trip   time.Duration // to a Store of four processes
	call   func(w *world) func(context.Context) error
	stages string // that must be seen when pauses begin: queued, admitted, connecting, being answered
}

func overTransport(w *world) func(context.Context) error { return w.send(w.g.Transport(w.base)) }

// Connections are made for each call.
func overPool(w *world) func(context.Context) error {
	p := core.Must(gate.NewPool(w.g, gate.PoolConfig[int64, int64]{Capacity: 24, Dial: func(_ context.Context, key int64) (int64, error) {
		w.v.dialing.Add(1)
		defer w.v.dialing.Add(-1)
		time.Sleep(500 * time.Millisecond)
		return key, nil
	}}))
	var n atomic.Int64
	return func(ctx context.Context) error {
		_, err := gate.Do(ctx, p, n.Add(1), func(context.Context, int64) (int, error) { return 0, w.v.call() })
		return err
	}
}

func overAll(w *world) func(context.Context) error {
	return w.send(client.New(w.base, w.g, retry.NewClient(nil, retry.ClientOptions{}),
		breaker.NewClient(core.Must(breaker.NewGroup(breaker.Config{})), breaker.ClientOptions{}),
		timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ClientOptions{PerAttempt: true})))
}

// A vendor that judges by its own clock sees no call inside a pause that it has told, and the next one soon after its end.
func TestNoCallInsideToldPause(t *testing.T) { noCallInsideToldPause(t, 2) }

func noCallInsideToldPause(t *testing.T, pauses int) {
	t.Helper()
	t.Parallel()
	const slow = 500 * time.Millisecond
	few, some, many := load{16, 2 * time.Second}, load{120, 10 * time.Second}, load{450, 20 * time.Second}
	flow, all := load{9, time.Second}, "queued admitted connecting"
	rate := gate.Config{Limits: []gate.Limit{{N: 9, Per: time.Second}}, InFlight: 60}
	for name, row := range map[string]setup{
		"seconds, 8 in flight": {cfg: gate.Config{InFlight: 8}, load: few, busy: 2, call: overTransport, stages: "queued admitted answered"},
		"date, 60 in flight":   {tell: date, cfg: gate.Config{InFlight: 60}, load: some, busy: 8, call: overTransport, stages: "queued admitted answered"},
		"not said, 60 in flight": {
			tell: silent, cfg: gate.Config{InFlight: 60, Backoff: backoff.Constant{Delay: pauseTime}}, load: some, busy: 8, call: overTransport, stages: "queued admitted answered",
		},
		"503, 300 in flight": {tell: seconds(503), cfg: gate.Config{InFlight: 300}, load: many, busy: 30, call: overTransport, stages: "queued admitted answered"},
		"slow dial":          {cfg: rate, load: flow, dial: slow, call: overTransport, stages: all},
		"HTTP/2":             {cfg: gate.Config{InFlight: 60}, load: some, busy: 8, http2: true, call: overTransport, stages: "queued admitted answered"},
		"HTTP/2, slow dial":  {cfg: gate.Config{InFlight: 8}, load: few, busy: 2, http2: true, dial: slow, call: overTransport, stages: "queued admitted answered"},
		"Do with pool":       {cfg: rate, load: flow, call: overPool, stages: all},
		"Do around Transport": {cfg: rate, load: flow, dial: slow, call: func(w *world) func(context.Context) error {
			one := overTransport(w)
			return func(ctx context.Context) error { return w.g.Do(ctx, gate.Call{}, one) }
		}, stages: all},
		"client.New with all":       {cfg: rate, load: flow, dial: slow, call: overAll, stages: all},
		"4 processes, 60 in flight": {cfg: gate.Config{InFlight: 60}, trip: 30 * time.Millisecond, load: some, busy: 8, call: overTransport, stages: "queued admitted answered"},
		"4 processes, slow dial":    {cfg: rate, trip: 30 * time.Millisecond, load: flow, dial: slow, call: overTransport, stages: "admitted connecting"},
		"4 processes, HTTP/2":       {cfg: rate, trip: 5 * time.Millisecond, load: flow, http2: true, call: overTransport, stages: "admitted"},
		"control without the last check": {cfg: rate, load: flow, dial: slow, call: func(w *world) func(context.Context) error {
			return w.send(w.g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
				return w.base.RoundTrip(r.WithContext(untraced{r.Context()})) //nolint:contextcheck // it is that of r
			})))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pauses := pauses
			if row.http2 && row.trip == 0 {
				pauses *= 4 // no call is queued when some of them begin
			}
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{tell: row.tell, pauses: pauses, busy: row.busy, trip: row.trip}
				if v.tell == nil {
					v.tell = seconds(http.StatusTooManyRequests)
				}
				w := newWorld(t, v, row.cfg, row.dial, row.http2)
				one := row.call(w)
				if row.trip > 0 {
					one = w.shared(row)
				}
				w.run(row.load, one)
				require.Len(t, v.firsts, pauses)
				if row.stages == "" {
					require.Greater(t, v.inside, pauses, "the control broke no pause: the load was too weak")
					return
				}
				require.Zero(t, v.inside, "of %d calls", len(v.arrived))
				for _, d := range v.firsts {
					require.LessOrEqual(t, d, 200*time.Millisecond+row.dial+5*row.trip)
				}
				if len(row.cfg.Limits) > 0 {
					require.LessOrEqual(t, most(v.arrived, nil, time.Second), int64(9))
					require.GreaterOrEqual(t, v.leastRate(), 0.9*9/1.05)
				}
				for i, stage := range []string{"queued", "admitted", "connecting", "answered"} {
					require.True(t, !strings.Contains(row.stages, stage) || v.stages[i] >= pauses, "stages %v", v.stages)
				}
			})
		})
	}
}

// Random calls under several limits, some of which leave, fail, are refused, reserved ahead or slow to connect: no period has more than
// its limit, and every call ends.
func TestRandomCalls(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test
			upTo := func(n int64) int64 { return 1 + random.Int64N(n) }
			period := func() time.Duration { return time.Duration(1+random.IntN(20)) * 100 * time.Millisecond }
			all, own := gate.Limit{Name: "all", N: 5 + upTo(200), Per: period()}, gate.Limit{Name: "account", N: 2 + upTo(40), Per: period(), Key: gate.ByCall}
			all.Burst, own.Burst = upTo(all.N/2), upTo(own.N/2)
			cfg := gate.Config{Limits: []gate.Limit{all, own}, InFlight: random.IntN(20)}
			bubble(t, cfg, func(t tester, g *gate.Gate) {
				var mu sync.Mutex
				at, units := map[string][]time.Time{}, map[string][]int64{}
				sent := func(c gate.Call) {
					mu.Lock()
					defer mu.Unlock()
					for name, key := range map[string]string{"all": "", "account": c.Keys["account"]} {
						at[name+key], units[name+key] = append(at[name+key], time.Now()), append(units[name+key], c.Costs[name])
					}
				}
				pool := core.Must(gate.NewPool(g, gate.PoolConfig[int64, int]{Capacity: 3, Dial: func(_ context.Context, ms int64) (int, error) {
					time.Sleep(time.Duration(ms) * time.Millisecond)
					return 0, nil
				}}))
				var group sync.WaitGroup
				for range 400 {
					c := account(fmt.Sprint(random.IntN(4)))
					c.Costs = map[string]int64{"all": random.Int64N(all.Burst + 1), "account": random.Int64N(own.Burst + 1)}
					kind, leave, took, dial := random.IntN(10), time.Duration(1+random.IntN(5000))*time.Millisecond, time.Duration(random.IntN(300))*time.Millisecond, random.Int64N(120)
					group.Go(func() {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if took < 2*time.Second {
							ctx = gate.Background(ctx)
						}
						if kind < 4 {
							time.AfterFunc(leave, cancel)
						}
						once := false
						call := func(context.Context) error {
							sent(c)
							time.Sleep(took)
							if kind == 9 && !once {
								once = true
								return refusal{took}
							}
							return nil
						}
						switch kind % 3 {
						case 0:
							_ = g.Do(ctx, c, call)
						case 1:
							_, _ = gate.Do(g.WithCall(ctx, c), pool, dial, func(ctx context.Context, _ int) (int, error) { return 0, call(ctx) })
						default:
							p, err := g.Reserve(ctx, c)
							if err != nil {
								return
							}
							defer p.Cancel()
							if p.Wait(ctx) == nil {
								p.Done(call(ctx))
							}
						}
					})
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				}
				group.Wait()
				for key := range at {
					l := own
					if key == "all" {
						l = all
					}
					require.LessOrEqual(t, most(at[key], units[key], l.Per), l.N, key)
				}
			})
		})
	}
}

// A vendor that doubles its pause with each call inside of it is never provoked, and rarely tripped. It serves 100 calls a second.
func TestEscalatingVendor(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		cfg   gate.Config
		grace time.Duration
		trips int
		most  time.Duration
	}{
		"60 in flight, pardons calls on their way": {gate.Config{InFlight: 60, MaxAttempts: 100}, time.Second, 7, 200 * time.Second},
		"90 a second, pardons nothing":             {gate.Config{InFlight: 60, Limits: []gate.Limit{{N: 90, Per: time.Second}}, Slack: 250 * time.Millisecond}, 0, 0, 67 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, row.cfg, func(t tester, g *gate.Gate) {
				v := escalating.New(row.grace, 1)
				start := time.Now()
				var group sync.WaitGroup
				for i := range 4000 {
					group.Go(func() {
						err := g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
							wait, err := v.Call(ctx, fmt.Sprint(i))
							if wait > 0 {
								return refusal{wait}
							}
							return err
						})
						require.NoError(t, err)
					})
					time.Sleep(time.Second / 120)
				}
				group.Wait()
				seen := v.Verdict()
				t.Logf("%d trips, in %v", seen.Trips, time.Since(start))
				require.Equal(t, 4000, seen.Unique)
				require.Zero(t, seen.Escalations)
				require.LessOrEqual(t, seen.Trips, row.trips)
				require.LessOrEqual(t, time.Since(start), row.most)
			})
		})
	}
}

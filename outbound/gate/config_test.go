package gate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/stores/redisstore"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		cfg  gate.Config
		want string
	}{
		"zero": {},
		"good": {cfg: gate.Config{InFlight: 1, MaxWait: -1, Limits: []gate.Limit{{N: 1, Per: time.Millisecond}, {Name: "b", N: 9, Per: 31 * 24 * time.Hour, Burst: 9}, {Name: "c"}}}},
		"limits": {
			cfg: gate.Config{Limits: []gate.Limit{{N: -1}, {N: 1}, {Name: "b", N: 1, Per: time.Second, Burst: 2}, {Name: "c", N: 1e9, Per: time.Minute, Burst: 1e9}}},
			want: `gate.Config.Limits[0].N = -1: must be >= 0 (0 is for holds only)
gate.Config.Limits[1].Name = "": must be unique
gate.Config.Limits[1].Per = 0s: must be 1ms to 744h
gate.Config.Limits[2].Burst = 2: must be 0 to N (0 means 1, or with Cost a tenth of N)
gate.Config.Limits[3].Burst = 1000000000: must be smaller: the steady rate is N - Burst + 1 in each Per`,
		},
		"limits of every call": {
			cfg: gate.Config{Limits: []gate.Limit{
				{}, {Name: "1"}, {Name: "2"}, {Name: "3"}, {Name: "4"}, {Name: "5"}, {Name: "6"}, {Name: "7"}, {Name: "8"}, {Name: "9", Key: gate.ByCall},
			}},
			want: `gate.Config.Limits = 9: must have at most 8 without a Key, which apply to every call`,
		},
		"nil store": {
			cfg:  gate.Config{Name: "x", Store: (*redisstore.Store)(nil)},
			want: `gate.Config.Store = a nil pointer: must be a store, or nil for one process`,
		},
		"rest": {
			cfg: gate.Config{InFlight: -1, Slack: -1, MaxHold: -1, MaxAttempts: -1, MaxQueue: -1, Backoff: backoff.Constant{Delay: -1}},
			want: `gate.Config.InFlight = -1: must be >= 0 (0 means no limit)
gate.Config.Slack = -1ns: must be 0 to 1m0s (0 means 50ms)
gate.Config.MaxHold = -1ns: must be >= 0 (0 means 24h0m0s)
gate.Config.MaxAttempts = -1: must be >= 0 (0 means 5)
gate.Config.MaxQueue = -1: must be >= 0 (0 means 65536)
gate.Config.Backoff.Constant.Delay = -1ns: must be >= 0`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := gate.New(row.cfg)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, row.want)
			require.ErrorIs(t, err, core.ErrConfig)
			require.Nil(t, g)
		})
	}
}

// Costs and keys of a call that cannot be made.
func TestCallThatCannotBe(t *testing.T) {
	t.Parallel()
	many, keys := make([]gate.Limit, 9), map[string]string{}
	for i := range many {
		many[i] = gate.Limit{Name: strings.Repeat("x", i), Key: gate.ByCall}
		keys[many[i].Name] = "a"
	}
	tokens := []gate.Limit{{Name: "tokens", N: 100, Per: time.Second, Burst: 10}}
	for name, row := range map[string]struct {
		cfg  gate.Config
		cost int64
		keys map[string]string
		want string
	}{
		"too much":        {gate.Config{Limits: tokens}, 11, nil, `gate.Call.Costs = 11: must be 0 to 10, the Burst of the limit "tokens"`},
		"negative":        {gate.Config{Limits: tokens}, -1, nil, `gate.Call.Costs = -1: must be 0 to 10, the Burst of the limit "tokens"`},
		"too many limits": {gate.Config{Limits: append(many, tokens...)}, 1, keys, `gate.Call.Keys = 9: must be at most 8 limits`},
		"no such limit":   {gate.Config{}, 1, nil, `gate.Call.Costs = tokens: must be the name of a limit`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, row.cfg, func(t tester, g *gate.Gate) {
				call := gate.Call{Keys: row.keys, Costs: map[string]int64{"tokens": row.cost}}
				_, err := g.Wait(t.Context(), call)
				require.EqualError(t, err, row.want)
				require.ErrorIs(t, err, core.ErrConfig)
				_, err = g.Reserve(t.Context(), call)
				require.Error(t, err)
				require.Error(t, g.Do(g.WithCall(t.Context(), call), gate.Call{}, nil))
			})
		})
	}
}

func TestLimitCost(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		call  gate.Call // of the context
		after time.Duration
	}{
		"of the request": {after: time.Minute + 50*time.Millisecond},
		"of the call":    {call: gate.Call{Costs: map[string]int64{"bytes": 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cost := func(r *http.Request) int64 { return r.ContentLength }
			cfg := gate.Config{Limits: []gate.Limit{{Name: "bytes", N: 10, Per: time.Minute, Burst: 10, Cost: cost}}}
			bubble(t, cfg, func(t tester, g *gate.Gate) {
				var sent []string
				rt, start := g.Transport(answers(&sent, "200")), time.Now()
				for _, text := range []string{"12345678", "123"} {
					req, err := http.NewRequestWithContext(g.WithCall(t.Context(), row.call), http.MethodPost, "http://vendor.test", strings.NewReader(text))
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				require.Equal(t, row.after, time.Since(start))
			})
		})
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	ads := func(scope, delay string) string {
		return `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"x","errors":[{"errorCode":{"quotaError":"RESOURCE_TEMPORARILY_EXHAUSTED"},"details":{"quotaErrorDetails":{"rateScope":"` + scope + `","retryDelay":"` + delay + `"}}}]}]}}`
	}
	for name, row := range map[string]struct {
		status int
		fields string
		json   string
		err    error
		want   gate.Signal
	}{
		"200":                        {status: 200, fields: "Retry-After: 5"},
		"429":                        {status: 429, want: gate.Signal{Limited: true}},
		"429 with seconds":           {status: 429, fields: "Retry-After: 5", want: gate.Signal{Limited: true, Pause: 5 * time.Second}},
		"429 with milliseconds":      {status: 429, fields: "Retry-After-Ms: 1500", want: gate.Signal{Limited: true, Pause: 1500 * time.Millisecond}},
		"429 with a date":            {status: 429, fields: "Retry-After: Wed, 25 Nov 2026 12:00:30 GMT, Date: Wed, 25 Nov 2026 12:00:00 GMT", want: gate.Signal{Limited: true, Pause: 31 * time.Second}},
		"429, nothing remains":       {status: 429, fields: "X-Ratelimit-Remaining: 0, X-Ratelimit-Reset: 7", want: gate.Signal{Limited: true, Pause: 7 * time.Second}},
		"403, nothing remains":       {status: 403, fields: "X-Ratelimit-Remaining: 0, X-Ratelimit-Reset: 7"},
		"403 with seconds":           {status: 403, fields: "Retry-After: 5", want: gate.Signal{Limited: true, Pause: 5 * time.Second}},
		"503":                        {status: 503},
		"503 with seconds":           {status: 503, fields: "Retry-After: 5", want: gate.Signal{Limited: true, Pause: 5 * time.Second}},
		"503 with 0":                 {status: 503, fields: "Retry-After: 0"},
		"Google Ads, account":        {status: 429, json: ads("ACCOUNT", "30s"), want: gate.Signal{Limited: true, Limit: "account", Pause: 30 * time.Second}},
		"Google Ads, developer":      {status: 403, json: "[" + ads("DEVELOPER", "") + "]", want: gate.Signal{Limited: true, Limit: "developer"}},
		"Google Cloud":               {status: 429, json: `{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"57.5s"}]}}`, want: gate.Signal{Limited: true, Pause: 57500 * time.Millisecond}},
		"Google Cloud and seconds":   {status: 429, fields: "Retry-After: 60", json: `{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"57.5s"}]}}`, want: gate.Signal{Limited: true, Pause: time.Minute}},
		"Google Cloud, for ever":     {status: 429, json: `{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"315576000000s"}]}}`, want: gate.Signal{Limited: true, Pause: math.MaxInt64}},
		"Google, another error":      {status: 400, json: `{"error":{"status":"INVALID_ARGUMENT","details":[{"retryDelay":"57.5s"}]}}`},
		"bad JSON":                   {status: 429, json: `{"error":`, want: gate.Signal{Limited: true}},
		"error":                      {err: io.ErrUnexpectedEOF},
		"error with RetryAfter":      {err: errors.Join(io.EOF, refusal{time.Second}), want: gate.Signal{Limited: true, Pause: time.Second}},
		"error, RetryAfter not said": {err: refusal{}, want: gate.Signal{Limited: true}},
		"rejection":                  {err: &gate.LimitedError{Until: time.Now().Add(time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.err != nil {
				require.Equal(t, row.want, gate.Classify(nil, row.err))
				return
			}
			resp := &http.Response{StatusCode: row.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(row.json))}
			for field := range strings.SplitSeq(strings.ReplaceAll(row.fields, ", 25", " 25"), ", ") {
				if k, v, ok := strings.Cut(field, ": "); ok {
					resp.Header.Set(k, strings.Replace(v, "Wed 25", "Wed, 25", 1))
				}
			}
			if row.json != "" {
				resp.Header.Set("Content-Type", "application/json; charset=UTF-8")
			}
			require.Equal(t, row.want, gate.Classify(resp, nil))
		})
	}
}

// A function of the user reads a bounded part of the body, which the caller reads again.
func TestClassifyReadsBody(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789", 10_000)
	read := -1
	cfg := gate.Config{Classify: func(resp *http.Response, _ error) gate.Signal {
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		read = len(b)
		return gate.Signal{Pause: time.Minute} // of the next calls: this response is an answer
	}}
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		}))
		start := time.Now()
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://vendor.test", nil)
			require.NoError(t, err)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, 64<<10, read)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
		}
		require.InDelta(t, time.Minute, time.Since(start), float64(time.Second))
	})
}

// A hold begins although the body of the refusal does not come, and lasts until Classify has decided.
func TestHoldBeforeStalledBody(t *testing.T) {
	t.Parallel()
	read := func(resp *http.Response, err error) gate.Signal {
		_, _ = io.ReadAll(resp.Body)
		return gate.Classify(resp, err)
	}
	is := func(s gate.Signal) func(*http.Response, error) gate.Signal {
		return func(resp *http.Response, err error) gate.Signal {
			if resp == nil {
				return gate.Classify(nil, err)
			}
			read(resp, nil)
			return s
		}
	}
	for name, row := range map[string]struct {
		classify func(*http.Response, error) gate.Signal
		inFlight int // in force after the body has come
		held     bool
	}{
		"default":     {nil, 4, true},
		"own":         {read, 4, true},
		"is no limit": {is(gate.Signal{Quotas: []gate.Quota{{Bucket: "x"}}}), 8, false},
		"for good":    {is(gate.Signal{Limited: true, Permanent: true, Pause: time.Hour}), 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withStoreAndWithout(t, gate.Config{Classify: row.classify, MaxAttempts: 1, InFlight: 8}, func(t tester, g *gate.Gate) {
				var others []*gate.Permit
				for range 2 {
					p, err := g.Wait(t.Context(), gate.Call{Keys: map[string]string{"host": "vendor.test:80"}})
					require.NoError(t, err)
					others = append(others, p)
				}
				time.AfterFunc(time.Second, func() { others[0].Done(nil) })
				r, w := io.Pipe()
				rt := g.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}, "Content-Type": {"application/json"}}, Body: r, Request: req}, nil
				}))
				go func() {
					req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://vendor.test", io.NopCloser(strings.NewReader("")))
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					_ = resp.Body.Close()
				}()
				for range 40 { // of the body
					time.Sleep(100 * time.Millisecond)
					require.Len(t, g.Holds(), 1)
				}
				_ = w.Close()
				time.Sleep(10 * time.Millisecond)
				if g.Config().Store != nil && !row.held { // other processes have learned of the trial hold, so it ends by itself
					time.Sleep(2 * time.Second)
				}
				require.Equal(t, row.inFlight, g.Stats().MaxInFlight)
				if !row.held {
					require.Empty(t, g.Holds())
					others[1].Done(refusal{time.Minute}) // it was sent before the trial hold, which does not make its answer late in this process
					if g.Config().Store != nil {
						return
					}
				}
				require.NotEmpty(t, g.Holds())
				for _, h := range g.Holds() {
					require.InDelta(t, time.Minute, time.Until(h.Until), float64(time.Second))
				}
				require.EqualValues(t, len(g.Holds()), g.Stats().Holds)
				others[1].Cancel()
			})
		})
	}
}

// A call that was admitted before a trial hold, and has its connection in it, is not sent: the pause can be real.
func TestTrialStopsAdmittedCall(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, gate.Config{}, func(t tester, g *gate.Gate) {
		r, w := io.Pipe()
		var sent []time.Duration
		start, tries := time.Now(), 0
		rt := g.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/refused" {
				return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}, "Content-Type": {"application/json"}}, Body: r, Request: req}, nil
			}
			if tries++; tries == 1 {
				time.Sleep(100 * time.Millisecond) // for a connection
			}
			httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{})
			if err := req.Context().Err(); err != nil {
				return nil, err
			}
			sent = append(sent, time.Since(start))
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
		}))
		time.AfterFunc(time.Second, func() { _ = w.Close() })
		var all sync.WaitGroup
		for _, path := range []string{"/slow", "/refused"} {
			all.Go(func() {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://vendor.test"+path, io.NopCloser(strings.NewReader("")))
				if resp, err := rt.RoundTrip(req); err == nil {
					_ = resp.Body.Close()
				}
			})
		}
		all.Wait()
		require.Len(t, sent, 1)
		require.Greater(t, sent[0], time.Minute)
	})
}

// A body that never ends is closed: the header decides, and the call ends.
func TestClassifyOfEndlessBody(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{http.StatusTooManyRequests: 1, http.StatusInternalServerError: 0} {
		bubble(t, gate.Config{MaxAttempts: 1}, func(t tester, g *gate.Gate) {
			rt := g.Transport(resiltest.NewScript(resiltest.Reply{
				Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: "{", Stall: -1,
			}))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://vendor.test", nil)
			require.NoError(t, err)
			start := time.Now()
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, 5*time.Second, time.Since(start))
			require.Equal(t, status, resp.StatusCode)
			got, err := io.ReadAll(resp.Body)
			require.Equal(t, "{", string(got))
			require.Error(t, err)
			require.NoError(t, resp.Body.Close())
			require.Len(t, g.Holds(), want)
		})
	}
}

// A body of a success can take as long as it likes.
func TestClassifyOfSlowBody(t *testing.T) {
	t.Parallel()
	cfg := gate.Config{Classify: func(resp *http.Response, _ error) gate.Signal {
		_, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return gate.Signal{}
	}}
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://vendor.test", nil)
		require.NoError(t, err)
		resp, err := g.Transport(resiltest.NewScript(resiltest.Reply{Body: "slow", Pace: 3 * time.Second})).RoundTrip(req)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "slow", string(got))
		require.NoError(t, resp.Body.Close())
	})
}

// A gate shares its Limits with no caller.
func TestConfigIsCopied(t *testing.T) {
	t.Parallel()
	mine, want := perSecond(1), perSecond(1)
	bubble(t, gate.Config{Limits: mine}, func(t tester, g *gate.Gate) {
		mine[0].N = -1
		g.Config().Limits[0].N = -1
		require.Equal(t, want, g.Config().Limits)
		mine[0].N = 1
		require.NoError(t, g.SetConfig(gate.Config{Limits: mine}))
		mine[0].N = -1
		require.Equal(t, want, g.Config().Limits)
	})
}

// The usage of a key recovers although the Config is set again and again.
func TestSetConfigKeepsUsage(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		then gate.Limit
		want time.Duration
	}{
		"the same": {gate.Limit{N: 1, Per: time.Minute}, time.Minute + 50*time.Millisecond},
		"another":  {gate.Limit{N: 1, Per: 30 * time.Second}, 59*time.Second + 525*time.Millisecond}, // a sixtieth of it is left
		"lower":    {gate.Limit{N: 1, Per: 2 * time.Minute}, 2*time.Minute + 50*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{Limits: []gate.Limit{{N: 1, Per: time.Minute}}}, func(t tester, g *gate.Gate) {
				start := time.Now()
				require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
				for range 59 {
					time.Sleep(time.Second)
					require.NoError(t, g.SetConfig(g.Config()))
				}
				require.NoError(t, g.SetConfig(gate.Config{Limits: []gate.Limit{row.then}}))
				require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
				require.InDelta(t, row.want, time.Since(start), float64(10*time.Millisecond))
			})
		})
	}
}

// A raise is felt at once, and usage still counts. Calls that wait get other slots.
func TestSetConfig(t *testing.T) {
	t.Parallel()
	slow, fast := gate.Config{Limits: []gate.Limit{{N: 1, Per: time.Minute}}}, gate.Config{Limits: perSecond(10)}
	for name, row := range map[string]struct {
		from, to gate.Config
		after    time.Duration
	}{
		"raised":  {slow, fast, 105 * time.Millisecond},
		"lowered": {fast, slow, time.Minute + 50*time.Millisecond},
		"removed": {slow, gate.Config{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, row.from, func(t tester, g *gate.Gate) {
				require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
				start := time.Now()
				waits := make(chan error)
				go func() { waits <- do(t.Context(), g, gate.Call{}, 0) }()
				synctest.Wait()
				require.NoError(t, g.SetConfig(row.to))
				require.NoError(t, <-waits)
				require.Equal(t, row.after, time.Since(start))
				require.Equal(t, row.to.Limits, g.Config().Limits)
			})
		})
	}
	bubble(t, gate.Config{InFlight: 2}, func(t tester, g *gate.Gate) {
		for range 10 {
			go func() { _ = do(t.Context(), g, gate.Call{}, time.Second) }()
		}
		for _, n := range []int{2, 5, 0, 3} {
			require.NoError(t, g.SetConfig(gate.Config{InFlight: n}))
			synctest.Wait()
			require.Equal(t, n, g.Stats().MaxInFlight)
		}
		require.Equal(t, 10, g.Stats().InFlight)
		time.Sleep(time.Second)
	})
}

// A call takes the permits of all of its limits, or none: while it waits for one, others can have those of the other seven.
func TestAllLimitsOrNone(t *testing.T) {
	t.Parallel()
	var cfg gate.Config
	keys, cost := map[string]string{}, map[string]int64{}
	for i := range 8 {
		name := fmt.Sprint(i)
		cfg.Limits = append(cfg.Limits, gate.Limit{Name: name, N: 10, Per: time.Minute, Burst: 10, Key: gate.ByCall})
		keys[name], cost[name] = "a", 10
	}
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		last := gate.Call{Keys: map[string]string{"7": "a"}, Costs: cost}
		require.NoError(t, do(t.Context(), g, last, 0))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = do(ctx, g, gate.Call{Keys: keys, Costs: cost}, 0) }()
		time.Sleep(30 * time.Second)
		start := time.Now()
		for i := range 7 {
			name := fmt.Sprint(i)
			require.NoError(t, do(t.Context(), g, gate.Call{Keys: map[string]string{name: "a"}, Costs: cost}, 0))
		}
		require.Less(t, time.Since(start), time.Second)
	})
}

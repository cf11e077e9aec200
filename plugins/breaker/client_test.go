package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

func TestOutcomesByDefault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		err    error
		want   breaker.State // after two
	}{
		{200, nil, breaker.Closed},
		{404, nil, breaker.Closed},
		{429, nil, breaker.Closed},
		{500, nil, breaker.Open},
		{501, nil, breaker.Closed},
		{503, nil, breaker.Open},
		{599, nil, breaker.Open},
		{0, errDown, breaker.Open},
		{0, context.DeadlineExceeded, breaker.Open}, // not that of the request
		{0, fmt.Errorf("inner: %w", core.ErrRejected), breaker.Closed},
	} {
		s := resiltest.NewScript(resiltest.Reply{Status: c.status, Err: c.err})
		p := newClient(t, breaker.ClientConfig{Window: 2})
		rt := p.Transport(s)
		for range 2 {
			_, err := get(t.Context(), rt, "https://"+host)
			require.Equal(t, c.err, err)
		}
		require.Equal(t, c.want, p.For(host).State(), "%d %v", c.status, c.err)
	}
}

func TestDefaultsForHTTP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := resiltest.NewScript(resiltest.Reply{Status: 500})
		p := newClient(t, breaker.ClientConfig{})
		rt := p.Transport(s)
		send(t, rt, 99, 500)
		require.Equal(t, breaker.Closed, p.For(host).State())
		send(t, rt, 1, 500)
		var delays []time.Duration
		for range 7 {
			delay := refused(t, rt).RetryAfter()
			delays = append(delays, delay)
			time.Sleep(delay)
			// 5 trials at a rate of a half: three failures are certain to open it again.
			send(t, rt, 2, 500)
			require.Equal(t, breaker.HalfOpen, p.For(host).State())
			send(t, rt, 1, 500)
		}
		for i, seconds := range []int{30, 60, 120, 240, 480, 600, 600} {
			want := time.Duration(seconds) * time.Second
			require.InDelta(t, want, delays[i], 0.2*float64(want), "delay %d", i)
			require.LessOrEqual(t, delays[i], 10*time.Minute)
		}
		time.Sleep(10 * time.Minute)
		s.Set()
		send(t, rt, 3, 200)
		require.Equal(t, breaker.Closed, p.For(host).State())
		require.Equal(t, 5, p.For(host).Snapshot().Trials)
	})
}

func TestEveryHostHasItsOwn(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript(resiltest.Reply{Status: 500})
	p := newClient(t, breaker.ClientConfig{Window: 2})
	rt := p.Transport(s)
	for _, url := range []string{"https://API.example.com/a", "https://api.example.com:443/b"} {
		_, err := get(t.Context(), rt, url)
		require.NoError(t, err)
	}
	_, err := get(t.Context(), rt, "https://api.example.com/c?d")
	require.ErrorIs(t, err, breaker.ErrOpen)
	for _, url := range []string{"https://other.example.com", "https://api.example.com:8443", "http://api.example.com"} {
		_, err := get(t.Context(), rt, url)
		require.NoError(t, err, url)
	}
	require.Equal(t, 4, p.Stats().Keys)
	require.Equal(t, 1, p.Stats().States[breaker.Open])
}

func TestKeyIsYours(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript(resiltest.Reply{Status: 500})
	p := newClient(t, breaker.ClientConfig{Window: 1, Key: func(req *http.Request) string { return req.Method }})
	rt := p.Transport(s)
	send(t, rt, 1, 500)
	_, err := get(t.Context(), rt, "https://other.example.com")
	require.ErrorIs(t, err, breaker.ErrOpen)
	require.Equal(t, breaker.Open, p.For("GET").State())
	require.Equal(t, 1, p.Group().Stats().Keys)
}

func TestAnOutageAndItsEndOverANetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := resiltest.NewScript(resiltest.Reply{Status: http.StatusBadGateway})
		base := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), script).Transport()
		p := newClient(t, breaker.ClientConfig{Window: 4, OpenDelay: minute()})
		hc := &http.Client{Transport: client.New(base, p)}
		status := func() int {
			resp, err := hc.Post("http://"+host, "text/plain", strings.NewReader("body"))
			if errors.Is(err, breaker.ErrOpen) {
				return 0
			}
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode
		}
		for range 4 {
			require.Equal(t, 502, status())
		}
		require.Equal(t, 0, status())
		time.Sleep(59 * time.Second)
		require.Equal(t, 0, status())
		script.Set()
		time.Sleep(time.Second)
		for range 3 {
			require.Equal(t, 200, status())
		}
		require.Equal(t, breaker.Closed, p.For(host+":80").State())
	})
}

func TestOurOwnAttemptTimeoutIsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := core.Must(timeout.New(timeout.Config{Limit: time.Second}))
		hang := func(req *http.Request) (*http.Response, error) { //nolint:unparam // it stands for a RoundTrip
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		inner := does(func(req *http.Request) (*http.Response, error) {
			return timeout.Do(req.Context(), limit, func(ctx context.Context) (*http.Response, error) { return hang(req.WithContext(ctx)) })
		})
		outer := does(hang)
		deadline := func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Second) }
		for _, c := range []struct {
			name string
			base http.RoundTripper
			ctx  func() (context.Context, context.CancelFunc)
			want core.Outcome
		}{
			{"a timeout for each attempt, further in", inner, func() (context.Context, context.CancelFunc) { return t.Context(), func() {} }, core.Failure},
			{"a total timeout, further out", outer, func() (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(t.Context(), time.Second, &timeout.Error{Name: limit.Name(), Limit: time.Second})
			}, core.Failure},
			{"a deadline of the caller", outer, deadline, core.Ignored},
			{"the caller gives up", outer, func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			}, core.Ignored},
		} {
			var got []core.Outcome
			p := newClient(t, breaker.ClientConfig{Registry: recorded(func(o core.Outcome) { got = append(got, o) })})
			ctx, cancel := c.ctx()
			_, err := get(ctx, p.Transport(c.base), "https://"+host)
			require.Error(t, err)
			cancel()
			require.Equal(t, []core.Outcome{c.want}, got, c.name)
		}
	})
}

func TestACancelledTrialGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := does(func(*http.Request) (*http.Response, error) {
		cancel()
		return nil, errors.New("use of closed network connection") // as a transport may say it
	})
	p := newClient(t, breaker.ClientConfig{Trials: 1, Initial: breaker.HalfOpen})
	rt := p.Transport(s)
	_, err := get(ctx, rt, "https://"+host)
	require.Error(t, err)
	require.Equal(t, breaker.HalfOpen, p.For(host).State())
	s.Set()
	send(t, rt, 1, 200)
	require.Equal(t, breaker.Closed, p.For(host).State())
}

func TestHungTrialsAndLateResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan int)
		s := does(func(req *http.Request) (*http.Response, error) { return respond(req, <-hang), nil })
		p := newClient(t, breaker.ClientConfig{Window: 2, Trials: 1, TrialTimeout: 10 * time.Second, OpenDelay: minute()})
		rt := p.Transport(s)
		var all sync.WaitGroup
		begin := func() {
			all.Go(func() { _, _ = get(t.Context(), rt, "https://"+host) })
			synctest.Wait()
		}
		for range 4 {
			begin() // while closed
		}
		hang <- 500
		hang <- 500
		synctest.Wait()
		require.Equal(t, breaker.Open, p.For(host).State())
		time.Sleep(time.Minute)
		hang <- 200 // two of those from before
		hang <- 200
		synctest.Wait()
		require.Equal(t, breaker.HalfOpen, p.For(host).State())
		require.EqualValues(t, 2, p.Stats().Late)
		begin() // a trial that hangs
		require.Equal(t, 10*time.Second, refused(t, rt).RetryAfter(), "until it loses its slot")
		time.Sleep(10 * time.Second)
		begin() // has its slot now
		require.Equal(t, 6, s.Calls())
		hang <- 200
		hang <- 200
		all.Wait()
		require.Equal(t, breaker.Closed, p.For(host).State())
	})
}

func TestWhatBeganWhileClosedDecidesNothingLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results := make(chan int)
		s := does(func(req *http.Request) (*http.Response, error) { return respond(req, <-results), nil })
		p := newClient(t, breaker.ClientConfig{Window: 2, Trials: 1, OpenDelay: minute()})
		rt := p.Transport(s)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { _, _ = get(t.Context(), rt, "https://"+host) })
		}
		synctest.Wait()
		end := func(status int) breaker.State {
			results <- status
			synctest.Wait()
			return p.For(host).State()
		}
		require.Equal(t, breaker.Closed, end(500))
		require.Equal(t, breaker.Open, end(500))
		time.Sleep(30 * time.Second)
		require.Equal(t, breaker.Open, end(200))
		require.Equal(t, 30*time.Second, refused(t, rt).RetryAfter())
		time.Sleep(30 * time.Second)
		all.Go(func() { _, _ = get(t.Context(), rt, "https://"+host) }) // the trial
		synctest.Wait()
		require.Equal(t, breaker.HalfOpen, p.For(host).State())
		require.EqualValues(t, 1, p.Stats().Late)
		require.Equal(t, breaker.HalfOpen, end(500), "of those from before, which wait longest")
		require.Equal(t, breaker.HalfOpen, end(500))
		require.EqualValues(t, 3, p.Stats().Late)
		require.Equal(t, breaker.Closed, end(200), "of the trial")
		all.Wait()
	})
}

func TestFiftyRequestsGetExactlyTheTrials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		s := does(func(req *http.Request) (*http.Response, error) { <-hang; return respond(req, 200), nil })
		p := newClient(t, breaker.ClientConfig{Initial: breaker.HalfOpen})
		rt := p.Transport(s)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { _, _ = get(t.Context(), rt, "https://"+host) })
		}
		synctest.Wait()
		require.Equal(t, 5, s.Calls())
		require.EqualValues(t, 50-5, p.Stats().Rejected)
		close(hang)
		all.Wait()
		require.Equal(t, breaker.Closed, p.For(host).State())
	})
}

func TestRetryAfterOfTheResponseThatOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			header string
			most   time.Duration
			want   time.Duration
		}{
			{"", 0, time.Minute},
			{"30", 0, time.Minute}, // at least OpenDelay
			{"120", 0, 2 * time.Minute},
			{time.Now().Add(3 * time.Minute).UTC().Format(http.TimeFormat), 0, 3*time.Minute + time.Second},
			{"120.5", 0, 120500 * time.Millisecond},
			{"99999999999", 0, 10 * time.Minute},
			{"99999999999", 90 * time.Second, 90 * time.Second},
			{"120", -1, time.Minute}, // not looked at
			{"soon", 0, time.Minute},
		} {
			s := answers(503, c.header)
			p := newClient(t, breaker.ClientConfig{Window: 2, OpenDelay: minute(), MaxRetryAfter: c.most})
			rt := p.Transport(s)
			send(t, rt, 1, 503)
			require.Equal(t, breaker.Closed, p.For(host).State(), "one is not enough")
			send(t, rt, 1, 503)
			require.Equal(t, c.want, refused(t, rt).RetryAfter(), "%+v", c)
		}
		s := answers(200, "120")
		p := newClient(t, breaker.ClientConfig{Window: 1})
		send(t, p.Transport(s), 2, 200)
	})
}

func TestTheBodyIsClosedExactlyOnce(t *testing.T) {
	t.Parallel()
	post := func(rt http.RoundTripper) (b *resiltest.Body, err error) {
		b = resiltest.NewBody("body")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host, b)
		require.NoError(t, err)
		_, err = rt.RoundTrip(req)
		require.Same(t, b, req.Body, "the request is not changed")
		return b, err
	}
	for _, synthetic := range []bool{false, true} {
		s := resiltest.NewScript(resiltest.Reply{Status: 500})
		p := newClient(t, breaker.ClientConfig{Window: 2, SyntheticResponse: synthetic})
		rt := p.Transport(s)
		for range 2 {
			b, err := post(rt)
			require.NoError(t, err)
			require.Equal(t, 1, b.Closes())
		}
		b, err := post(rt)
		require.Equal(t, synthetic, err == nil)
		require.Equal(t, 1, b.Closes())
		require.Equal(t, 2, s.Calls())
	}
}

func TestAPanickingTransport(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"panic": func() { panic("transport") }, "goexit": runtime.Goexit} {
		s := does(func(*http.Request) (*http.Response, error) { end(); return nil, nil }) //nolint:nilnil // not reached
		p := newClient(t, breaker.ClientConfig{Trials: 1, Initial: breaker.HalfOpen})
		rt := p.Transport(s)
		b := resiltest.NewBody("body")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host, b)
		require.NoError(t, err)
		var panicked any
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { panicked = recover() }()
			_, _ = rt.RoundTrip(req)
		})
		all.Wait()
		if name == "panic" {
			require.Equal(t, "transport", panicked)
		}
		require.Equal(t, 1, b.Closes(), name)
		require.Equal(t, breaker.HalfOpen, p.For(host).State(), name)
		s.Set()
		send(t, rt, 1, 200)
		require.Equal(t, breaker.Closed, p.For(host).State(), name)
	}
}

func TestAPanickingClassify(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript()
	p := newClient(t, breaker.ClientConfig{Trials: 1, Initial: breaker.HalfOpen, Classify: func(context.Context, *http.Response, error) core.Outcome { panic("classify") }})
	require.PanicsWithValue(t, "classify", func() { _, _ = get(t.Context(), p.Transport(s), "https://"+host) })
	require.Equal(t, []int{1}, s.Closes(), "nobody else can")
	require.Zero(t, p.For(host).Snapshot().TrialsRunning)
}

func TestSyntheticResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := resiltest.NewScript(resiltest.Reply{Status: 500})
		p := newClient(t, breaker.ClientConfig{Window: 1, SyntheticResponse: true, OpenDelay: minute()})
		rt := p.Transport(s)
		send(t, rt, 1, 500)
		time.Sleep(500 * time.Millisecond)
		resp, err := get(t.Context(), rt, "https://"+host)
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, "60", resp.Header.Get("Retry-After"), "59.5s, rounded up")
		require.ErrorIs(t, client.Rejected(resp), breaker.ErrOpen)
		require.Equal(t, core.Ignored, client.Classify(t.Context(), resp, nil))
		require.Equal(t, 1, s.Calls())
	})
}

func TestRetriesStopAtAnOpenBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, synthetic := range []bool{false, true} {
			s := resiltest.NewScript(resiltest.Reply{Status: 500})
			breakers := newClient(t, breaker.ClientConfig{Window: 2, SyntheticResponse: synthetic})
			retries := core.Must(retry.New(retry.Config{MaxAttempts: 5}))
			tr := client.New(s, breakers, retries) // in the wrong order, which does not matter
			require.Empty(t, tr.Check())
			began := time.Now()
			resp, err := get(t.Context(), tr, "https://"+host)
			require.Equal(t, 2, s.Calls(), "the third attempt is rejected, and that is not retried")
			require.Less(t, time.Since(began), 5*time.Second)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			began = time.Now()
			resp, err = get(t.Context(), tr, "https://"+host)
			require.Zero(t, time.Since(began))
			require.Equal(t, 2, s.Calls())
			if synthetic {
				require.NoError(t, err)
				require.ErrorIs(t, client.Rejected(resp), breaker.ErrOpen)
			} else {
				require.ErrorIs(t, err, breaker.ErrOpen)
			}
		}
	})
}

func TestJudgedAtTheHeaders(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript(resiltest.Reply{Stall: -1})
	p := newClient(t, breaker.ClientConfig{Trials: 1, Initial: breaker.HalfOpen})
	resp, err := get(t.Context(), p.Transport(s), "https://"+host)
	require.NoError(t, err)
	require.Same(t, s.Attempts()[0].Response, resp.Body, "it is not wrapped")
	require.Equal(t, breaker.Closed, p.For(host).State(), "while the body is still to come")
}

func TestOverride(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript(resiltest.Reply{Status: 500})
	p, other := newClient(t, breaker.ClientConfig{Window: 1}), newClient(t, breaker.ClientConfig{Window: 1})
	rt := p.Transport(s)
	send(t, rt, 1, 500)
	past := p.Override(t.Context(), func(c *breaker.ClientCall) { c.Disabled = true })
	_, err := get(past, rt, "https://"+host)
	require.NoError(t, err, "it goes past the breaker")
	require.EqualValues(t, 1, p.Stats().Failures, "and is not counted")

	_, err = get(past, other.Transport(s), "https://"+host)
	require.NoError(t, err)
	require.Equal(t, breaker.Open, other.For(host).State(), "another plugin is not changed")

	tenant := p.Override(t.Context(), func(c *breaker.ClientCall) { c.Key = "tenant" })
	harmless := p.Override(tenant, func(c *breaker.ClientCall) {
		require.Equal(t, "tenant", c.Key)
		c.Classify = func(_ context.Context, resp *http.Response, _ error) core.Outcome {
			require.Equal(t, 500, resp.StatusCode)
			return core.Success
		}
	})
	for range 3 {
		_, err = get(harmless, rt, "https://"+host)
		require.NoError(t, err)
	}
	require.Equal(t, breaker.Closed, p.For("tenant").State())
	_, err = get(tenant, rt, "https://"+host)
	require.NoError(t, err)
	require.Equal(t, breaker.Open, p.For("tenant").State())
	_, err = get(tenant, rt, "https://other.example.com")
	require.ErrorIs(t, err, breaker.ErrOpen)
	_, err = get(p.Override(past, func(c *breaker.ClientCall) { c.Disabled = false }), rt, "https://"+host)
	require.ErrorIs(t, err, breaker.ErrOpen, "the innermost is applied last")
}

func TestClientConfig(t *testing.T) {
	t.Parallel()
	_, err := breaker.NewClient(breaker.ClientConfig{FailureRate: 2, MaxKeys: -1, Trials: -1})
	for _, field := range []string{"breaker.ClientConfig.FailureRate", "breaker.ClientConfig.Trials", "breaker.ClientConfig.MaxKeys"} {
		require.ErrorContains(t, err, field)
	}
	require.ErrorIs(t, err, core.ErrConfig)
	require.EqualError(t, breaker.ClientConfig{FailureRate: 2, MaxKeys: -1, Trials: -1}.Validate(), err.Error())

	var r core.Registry
	base := breaker.ClientConfig{Name: "vendor", Registry: &r}
	p := newClient(t, with(base, func(c *breaker.ClientConfig) { c.MaxKeys = 7 }))
	require.Equal(t, breaker.ClientConfig{Name: "vendor", Registry: &r}, base)
	require.Equal(t, 7, p.Config().MaxKeys)
	require.Nil(t, p.Config().OpenDelay, "as given")
	require.Equal(t, []any{"vendor", client.Attempt}, []any{p.Name(), p.Phase()})
	found, _ := core.Lookup[*breaker.Client](&r, "vendor")
	require.Same(t, p, found)
	_, err = breaker.NewClient(base)
	require.ErrorContains(t, err, "already registered")
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.NoError(t, newClient(t, base).Close())
}

func TestTransportPassesCloseIdleConnectionsOn(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{})
	base := &idler{}
	client.CloseIdleConnections(p.Transport(base))
	require.Equal(t, 1, base.closed)
	client.CloseIdleConnections(p.Transport(nil))
}

type idler struct {
	http.RoundTripper
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

// TestNoAllocations is not parallel: it counts those of the whole process.
func TestNoAllocations(t *testing.T) { //nolint:paralleltest // see above
	p := newClient(t, breaker.ClientConfig{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host, http.NoBody)
	require.NoError(t, err)
	resp := respond(req, 200)
	rt := p.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return resp, nil }))
	open := newClient(t, breaker.ClientConfig{Initial: breaker.ForcedOpen}).Transport(nil)
	for name, rt := range map[string]http.RoundTripper{"closed": rt, "open": open} {
		_, _ = rt.RoundTrip(req)
		const times = 10_000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			_, _ = rt.RoundTrip(req)
		}
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > times/100 { // what the runtime does meanwhile
			t.Errorf("%s: %d allocations in %d runs", name, n, times)
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://"+host, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	resp := respond(req, 200)
	base := roundTrip(func(*http.Request) (*http.Response, error) { return resp, nil })
	for name, rt := range map[string]http.RoundTripper{
		"floor": base, "breaker": core.Must(breaker.NewClient(breaker.ClientConfig{})).Transport(base),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rt.RoundTrip(req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

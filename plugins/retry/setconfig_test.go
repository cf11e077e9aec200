package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	coreretry "github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

// sends is how many attempts a request through p makes that always gets code.
func sends(t *testing.T, p *retry.Plugin, code int, ctx context.Context, method string) int { //nolint:revive // t comes first
	t.Helper()
	s := resiltest.NewScript(status(code, 0))
	_, err := do(t, p, s, request(ctx, method, nil))
	require.NoError(t, err)
	return s.Calls()
}

func TestSetConfig(t *testing.T) {
	t.Parallel()
	var r core.Registry
	cfg := retry.Config{Registry: &r, Backoff: backoff.Constant{}}
	p := core.Must(retry.New(cfg))
	ctx := t.Context()
	require.Equal(t, 3, sends(t, p, 503, ctx, http.MethodGet))
	require.Equal(t, 1, sends(t, p, 503, ctx, http.MethodPost))

	methods := []string{http.MethodPost}
	more := with(cfg, func(c *retry.Config) { c.MaxAttempts, c.Methods = 5, methods })
	require.NoError(t, p.SetConfig(more))
	methods[0] = "X"
	require.Equal(t, 1, sends(t, p, 503, ctx, http.MethodGet))
	require.Equal(t, 5, sends(t, p, 503, ctx, http.MethodPost), "a copy of the methods")
	require.Equal(t, []string{http.MethodPost}, p.Config().Methods)
	require.Equal(t, 2, sends(t, p, 503, p.Override(ctx, func(c *retry.Config) { c.MaxAttempts = 2 }), http.MethodPost), "an override is of the new one")
	require.EqualValues(t, 3, p.Stats().FailedRetried, "counts stay")

	for want, change := range map[string]func(*retry.Config){
		"retry.Config.MaxRetryAfter = -1ns: must be >= 0 (0 means 2m0s)": func(c *retry.Config) { c.MaxRetryAfter = -1 },
		"retry.Config.MaxAttempts = -1: must be >= 0 (0 means 3)":        func(c *retry.Config) { c.MaxAttempts = -1 },
		"retry.Config.Name = other: must stay default":                   func(c *retry.Config) { c.Name = "other" },
		"retry.Config.Registry = another one: must stay the same":        func(c *retry.Config) { c.Registry = new(core.Registry) },
	} {
		bad := with(more, func(c *retry.Config) { c.AnyMethod = true; change(c) })
		require.EqualError(t, p.SetConfig(bad), want)
		require.False(t, p.Config().AnyMethod)
		require.Equal(t, 1, sends(t, p, 503, ctx, http.MethodGet), "the old one is kept")
	}
}

func TestAnOverrideThatIsNilChangesNothing(t *testing.T) {
	t.Parallel()
	p := quick(retry.Config{})
	require.Equal(t, 3, sends(t, p, 503, p.Override(t.Context(), nil), http.MethodGet))
	ctx := p.Override(p.Override(t.Context(), func(c *retry.Config) { c.Disabled = true }), nil)
	require.Equal(t, 1, sends(t, p, 503, ctx, http.MethodGet))
}

func TestTheRegistryHasThePlugin(t *testing.T) {
	t.Parallel()
	var verdicts []string
	r := heard(&verdicts)
	notFound := func(resp *http.Response) bool { return resp.StatusCode == http.StatusNotFound }
	p := core.Must(retry.New(retry.Config{Name: "api", Registry: r, Backoff: backoff.Constant{}, AnyMethod: true, RetryResponse: notFound}))
	plugin, _ := core.Lookup[*retry.Plugin](r, "api")
	require.Same(t, p, plugin)
	_, err := retry.New(retry.Config{Name: "api", Registry: r})
	require.ErrorContains(t, err, "already registered")
	require.Equal(t, 3, sends(t, p, 404, t.Context(), http.MethodPost))
	require.Equal(t, []string{"retried", "retried", "exhausted"}, verdicts)

	verdicts = nil
	require.NoError(t, p.SetConfig(retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{}, RetryIf: func(error) bool { return false }}))
	require.Equal(t, 4, sends(t, p, 503, t.Context(), http.MethodGet))
	require.Equal(t, 1, sends(t, p, 404, t.Context(), http.MethodPost), "all fields are those of the new Config")
	s := resiltest.NewScript(resiltest.Reply{Err: io.ErrUnexpectedEOF})
	_, err = do(t, p, s, get(t))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, 1, s.Calls(), "RetryIf")
	require.Equal(t, []string{"", "retried", "retried", "retried", "exhausted", "ignored"}, verdicts, "the first for the Config")
	require.NoError(t, p.Close())
	_, found := core.Lookup[*retry.Plugin](r, "api")
	require.False(t, found)
}

func TestADisabledPluginOnlyPassesRequestsOn(t *testing.T) {
	t.Parallel()
	events := 0
	base := retry.Config{
		Backoff: backoff.Constant{},
		Map: func(*http.Response, error) (*http.Response, error) {
			events++
			return nil, errors.New("mapped")
		},
		CheckRetry: func(context.Context, *http.Response, error) (bool, error) { events++; return true, nil },
		OnRetry:    func(context.Context, retry.Retry) { events++ },
	}
	p := core.Must(retry.New(with(base, func(c *retry.Config) { c.Disabled = true })))
	require.Equal(t, 1, sends(t, p, 503, t.Context(), http.MethodGet))
	req := get(t)
	resp, err := do(t, p, resiltest.NewScript(status(200, 0)), req)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Zero(t, events)
	require.Zero(t, p.Stats())

	enable := p.Override(t.Context(), func(c *retry.Config) { c.Disabled, c.Map = false, nil })
	require.Equal(t, 3, sends(t, p, 503, enable, http.MethodGet))
	require.NotZero(t, events)
	bad := p.Override(enable, func(c *retry.Config) { c.Disabled, c.MaxAttempts = true, -1 })
	_, err = do(t, p, resiltest.NewScript(status(200, 0)), request(bad, http.MethodGet, nil))
	require.EqualError(t, err, "retry.Config.MaxAttempts = -1: must be >= 0 (0 means 3)", "it is validated all the same")
	require.NoError(t, p.SetConfig(retry.Config{Backoff: backoff.Constant{}}))
	require.Equal(t, 3, sends(t, p, 503, t.Context(), http.MethodGet))
}

// Many attempts, but only of what may be repeated, or one of anything: what belongs
// together is never seen apart.
func TestSetConfigUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	many := retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{}, Methods: []string{http.MethodGet}}
	once := retry.Config{MaxAttempts: 1, AnyMethod: true}
	p := core.Must(retry.New(many))
	stop := make(chan struct{})
	var requests, setters sync.WaitGroup
	var last atomic.Int64
	setters.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				if err := p.SetConfig([]retry.Config{once, many}[n%2]); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 4 {
		requests.Go(func() {
			for n := range 500 {
				s := resiltest.NewScript(status(503, 0))
				ctx := t.Context()
				if n%3 == 0 {
					ctx = p.Override(ctx, func(*retry.Config) {})
				}
				method := []string{http.MethodPost, http.MethodGet}[n%2]
				resp, err := p.Transport(s).RoundTrip(request(ctx, method, nil))
				if err != nil {
					t.Error(err)
					continue
				}
				_ = resp.Body.Close()
				sent := s.Calls()
				last.Store(int64(sent))
				if sent != 1 && (method == http.MethodPost || sent != 4) {
					t.Errorf("%s was sent %d times", method, sent)
				}
			}
		})
	}
	requests.Wait()
	close(stop)
	setters.Wait()
	require.NotZero(t, last.Load())
}

func TestBudgetOfTwoPlugins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := core.Must(retry.NewBudget(0.5, 1))
		var why []string
		suppressed := func() *core.Registry {
			return listened(func(verdict string, e registry.Event) {
				if verdict == "suppressed" {
					why = append(why, e.Attr("reason").String())
				}
			})
		}
		one := quick(retry.Config{Budget: budget, Registry: suppressed()})
		other := quick(retry.Config{Budget: budget, Registry: suppressed()})
		require.Equal(t, 2, sends(t, one, 503, t.Context(), http.MethodGet), "the one of the second; the response is returned")
		require.Equal(t, 2, sends(t, other, 503, t.Context(), http.MethodGet), "paid for by both")
		require.Equal(t, 1, sends(t, one, 503, t.Context(), http.MethodGet))
		require.Equal(t, 1, sends(t, one, 503, one.Override(t.Context(), func(c *retry.Config) { c.MaxAttempts = 9; c.Budget = core.Must(retry.NewBudget(0, 0)) }), http.MethodGet))
		require.Equal(t, []string{"budget", "budget", "budget", "budget"}, why)
		require.EqualValues(t, 3, one.Stats().Suppressed[coreretry.OverBudget])
		boom := errors.New("boom")
		_, err := do(t, other, resiltest.NewScript(resiltest.Reply{Err: boom}), get(t))
		require.ErrorIs(t, err, boom)
		time.Sleep(time.Second)
		require.Positive(t, budget.Left())
	})
	_, err := retry.NewBudget(-1, 0)
	require.ErrorIs(t, err, core.ErrConfig)
}

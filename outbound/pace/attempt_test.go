package pace_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/timeout"
)

// TestTheWaitAfterASlowDialIsNotPartOfAnAttempt: the dial takes longer than Slack, and the next slot
// comes after the limit of an attempt. Connections of HTTP/1 are not kept, so each request dials.
func TestTheWaitAfterASlowDialIsNotPartOfAnAttempt(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, set func(*http.Transport)) {
		t.Helper()
		var v vendor
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err == nil && string(body) == "order" {
				v.call(1)
			}
		}))
		tr := srv.Transport()
		set(tr)
		tr.DisableKeepAlives = tr.Protocols == nil
		dials(tr, 60*time.Millisecond)
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 10, Per: time.Minute}}})
		group := core.Must(breaker.NewGroup(breaker.Config{Window: 4}))
		breakers := breaker.NewClient(group, breaker.ClientOptions{})
		attempt := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: 5 * time.Second})), timeout.ClientOptions{PerAttempt: true})
		rt := client.New(tr, p, breakers, attempt)
		for range 20 {
			req := post(t.Context(), srv.URL, strings.NewReader("order"))
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Same(t, req, resp.Request)
			require.NoError(t, resp.Body.Close())
		}
		require.EqualValues(t, 20, v.total())
		require.LessOrEqual(t, v.most(time.Minute), int64(10))
		require.Zero(t, group.Stats().Failures)
		require.LessOrEqual(t, p.Stats().Stale, uint64(20), "no request dials more than twice")
		require.NotZero(t, p.Stats().Stale)
	})
}

// TestASlowDialDoesNotLoseItsTurn: many calls wait when the permit is stale.
func TestASlowDialDoesNotLoseItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var v vendor
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { v.call(1) }))
		tr := srv.Transport()
		dials(tr, 100*time.Millisecond)
		p := newPacer(t, pace.Config{Rates: perSecond(100)})
		group := core.Must(breaker.NewGroup(breaker.Config{Window: 4}))
		breakers := breaker.NewClient(group, breaker.ClientOptions{})
		attempt := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ClientOptions{PerAttempt: true})
		rt := client.New(tr, p, breakers, attempt)
		done := make(chan error, 1000)
		for range 1000 {
			go func() {
				resp, err := rt.RoundTrip(post(t.Context(), srv.URL, nil))
				if err == nil {
					err = resp.Body.Close()
				}
				done <- err
			}()
		}
		for range 1000 {
			require.NoError(t, <-done)
		}
		require.EqualValues(t, 1000, v.total())
		require.LessOrEqual(t, v.most(time.Second), int64(100))
		require.Zero(t, group.Stats().Failures)
		time.Sleep(time.Second) // dials whose request has got another connection
	})
}

// TestARepetitionThatHasItsConnectionEarlyComesUnderNewRates: the second dial is fast, so the request
// waits for its slot with the connection, and the rates change meanwhile.
func TestARepetitionThatHasItsConnectionEarlyComesUnderNewRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), resiltest.NewScript())
		tr := srv.Transport()
		dial, dialed := tr.DialContext, 0
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dialed++; dialed == 1 {
				time.Sleep(time.Minute)
			}
			return dial(ctx, network, addr)
		}
		cfg := pace.Config{Rates: []pace.Rate{{Calls: 1, Per: time.Hour}}}
		p := newPacer(t, cfg)
		rt := p.Transport(tr)
		sent := make(chan time.Duration)
		start := time.Now()
		go func() {
			resp, err := rt.RoundTrip(post(t.Context(), srv.URL, nil))
			if err == nil {
				_ = resp.Body.Close()
			}
			sent <- time.Since(start)
		}()
		time.Sleep(p.Config().Slack + time.Hour - 30*time.Second) // it has its connection
		synctest.Wait()
		require.Equal(t, 2, dialed)
		cfg.Rates = perSecond(1)
		require.NoError(t, p.SetConfig(cfg))
		require.Less(t, <-sent, time.Hour-20*time.Second)
	})
}

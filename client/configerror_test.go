package client_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/timeout"
)

// An Override that cannot be used says nothing about the host.
func TestAConfigErrorFurtherInOpensNoBreaker(t *testing.T) {
	t.Parallel()
	breakers, attempt := core.Must(breaker.NewGroup(breaker.Config{Window: 1})), core.Must(timeout.NewAttempt(timeout.Config{}))
	rt := client.New(nil, breaker.NewClient(breakers, breaker.ClientOptions{}), attempt)
	req := request(t, http.MethodGet, nil)
	ctx := attempt.Override(t.Context(), func(c *timeout.Config) { c.BodyIdle = -1 })
	_, err := rt.RoundTrip(req.WithContext(ctx))
	require.ErrorIs(t, err, core.ErrConfig)
	require.Equal(t, core.Ignored, client.Classify(t.Context(), nil, err))
	stats := breakers.For(client.Host(req)).Stats()
	require.EqualValues(t, 1, stats.Ignored)
	require.Zero(t, stats.Failures)
}

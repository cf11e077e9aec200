package timeout_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

// A field that a kind of limit does not use is an error, and not ignored.
func TestFieldsOfTheOtherKind(t *testing.T) {
	t.Parallel()
	for want, tt := range map[string]struct {
		kind func(timeout.Config) (*timeout.Client, error)
		set  func(*timeout.Config)
	}{
		"timeout.Config.HeadersOnly = true: must be false for the limit of an attempt": {timeout.NewAttempt, func(c *timeout.Config) { c.HeadersOnly = true }},
		"timeout.Config.CutBody = true: must be false for a total limit":               {timeout.NewTotal, func(c *timeout.Config) { c.CutBody = true }},
		"timeout.Config.ResponseHeader = 1s: must be 0 for a total limit":              {timeout.NewTotal, func(c *timeout.Config) { c.ResponseHeader = time.Second }},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			cfg := timeout.Config{Disabled: true} // whatever the rest
			tt.set(&cfg)
			_, err := tt.kind(cfg)
			require.EqualError(t, err, want)

			p := core.Must(tt.kind(timeout.Config{}))
			require.EqualError(t, p.SetConfig(cfg), want)
			require.Zero(t, p.Config())
			script := resiltest.NewScript()
			req := core.Must(http.NewRequestWithContext(p.Override(t.Context(), tt.set), http.MethodGet, "http://example.test/", nil))
			_, err = p.Transport(script).RoundTrip(req)
			require.EqualError(t, err, want)
			require.Zero(t, script.Calls())
		})
	}
}

package retry_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	breakerplugin "github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

// A response that stands for a rejection says that no call was made. After an attempt
// that was made it must not.
func TestARejectionWithAResponseAfterARealAttemptIsNotMarked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg    retry.Config
		steps  []resiltest.Reply
		marked bool
	}{
		"rejected at once":               {steps: []resiltest.Reply{reject(core.ErrRejected)}, marked: true},
		"after an attempt":               {steps: []resiltest.Reply{status(503, 9), reject(core.ErrRejected)}},
		"after an error":                 {steps: []resiltest.Reply{{Err: io.ErrUnexpectedEOF}, reject(core.ErrRejected)}},
		"the last attempt":               {cfg: retry.Config{MaxAttempts: 2}, steps: []resiltest.Reply{status(503, 9), reject(core.ErrRejected)}},
		"all rejected":                   {cfg: retry.Config{RetryRejected: true}, steps: []resiltest.Reply{reject(core.ErrRejected)}, marked: true},
		"all rejected, one by an error":  {cfg: retry.Config{RetryRejected: true}, steps: []resiltest.Reply{{Err: core.ErrRejected}, reject(core.ErrRejected)}, marked: true},
		"retried after an attempt":       {cfg: retry.Config{RetryRejected: true}, steps: []resiltest.Reply{status(503, 9), reject(core.ErrRejected)}},
		"one attempt between rejections": {cfg: retry.Config{RetryRejected: true}, steps: []resiltest.Reply{reject(core.ErrRejected), status(503, 9), reject(core.ErrRejected)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := resiltest.NewScript(tt.steps...)
			resp, err := do(t, quick(tt.cfg), s, get(t))
			require.NoError(t, err)
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			require.Equal(t, tt.marked, client.Rejected(resp) != nil)
			require.Equal(t, "/x", resp.Request.URL.Path)
			want := core.Failure
			if tt.marked {
				want = core.Ignored
			}
			require.Equal(t, want, client.Classify(t.Context(), resp, nil))
		})
	}
}

func TestABreakerFurtherOutCountsARequestThatWasRejectedInTheEnd(t *testing.T) {
	t.Parallel()
	base := resiltest.NewScript(status(503, 0))
	inner := core.Must(breakerplugin.NewClient(breakerplugin.ClientConfig{Window: 1, SyntheticResponse: true, OpenDelay: backoff.Constant{Delay: 1 << 40}}))
	outer := core.Must(breakerplugin.NewClient(breakerplugin.ClientConfig{}))
	rt := client.New(base, client.InPhase(outer, client.Overall), quick(retry.Config{}), inner)
	for range 2 {
		resp, err := rt.RoundTrip(get(t))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.Equal(t, 1, base.Calls())
	require.Equal(t, breaker.Stats{Failures: 1, Ignored: 1}, outer.For("example.test:80").Stats())
}

package ratelimit_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// The body of a probe is observed by a copy of the request.
func TestTheRequestOfTheResponseToAProbeIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
		limits.Cooldown().Hold(t.Context(), "a.test:80", time.Second)
		req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://a.test/", io.MultiReader(strings.NewReader("a stream"))))
		resp, err := limits.Transport(resiltest.NewScript(resiltest.Reply{})).RoundTrip(req)
		require.NoError(t, err)
		require.Same(t, req, resp.Request)
		require.NoError(t, resp.Body.Close())
	})
}

type http2GoAwayError struct{ ErrCode uint32 }

func (http2GoAwayError) Error() string { return "GOAWAY" }

// Another error of a probe means only that the next one is a second later.
func TestAProbeThatTheServerCallsTooMuchHoldsAsLongAgain(t *testing.T) {
	t.Parallel()
	for code, want := range map[uint32]time.Duration{0xb: time.Minute, 0x2: time.Second} { // ENHANCE_YOUR_CALM, INTERNAL_ERROR
		synctest.Test(t, func(t *testing.T) {
			limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
			limits.Cooldown().Hold(t.Context(), "a.test:80", time.Minute)
			time.Sleep(time.Minute)
			rt := limits.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return nil, http2GoAwayError{code} }))
			_, err := rt.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)))
			require.Error(t, err)
			until, _ := limits.Cooldown().Until("a.test:80")
			require.Equal(t, want, time.Until(until))
		})
	}
}

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
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/resiltest"
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

package resiltest_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/resiltest"
)

func TestCounterFailsTheTestWhenABodyIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := &fakeTB{}
		c := resiltest.Count(tb, resiltest.NewScript(resiltest.Reply{Body: "x"}))
		_, _, err := fetch(t.Context(), t, c, "http://a.test")
		require.NoError(t, err)
		resp, err := c.RoundTrip(request(t.Context(), t, http.MethodGet, "http://a.test"))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, []string{"resiltest: 1 of 2 response bodies are not closed, 0 of 2 requests are in flight"}, tb.end())
		require.NoError(t, resp.Body.Close())
		require.NoError(t, resp.Body.Close())
		require.Equal(t, resiltest.Counts{Requests: 2, Opened: 2, Closed: 2}, c.Counts())
	})
}

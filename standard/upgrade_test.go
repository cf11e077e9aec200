package standard_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/standard"
)

// shouts upgrades a connection, and sends what it got when the client has ended its
// direction.
func shouts(w http.ResponseWriter, _ *http.Request) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
	_ = rw.Flush()
	text, _ := bufio.NewReader(rw).ReadString('\n')
	_, _ = io.WriteString(c, text+"!")
}

func TestAnUpgradedConnectionPassesThroughEveryPart(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*standard.Config){
		"default": func(*standard.Config) {},
		"a nearer outer limit": func(c *standard.Config) {
			c.Total, c.Attempt = timeout.Config{Limit: -1}, timeout.Config{Limit: 2 * time.Hour}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(shouts))
			cfg := standard.Config{HTTP: http.Client{Transport: srv.Transport()}}
			change(&cfg)
			c := newClient(t, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			req := core.Must(http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil))
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "shout")
			resp, err := c.Do(req)
			require.NoError(t, err, name)
			require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
			both, ok := resp.Body.(io.ReadWriteCloser)
			require.True(t, ok, name)
			_, ok = resp.Body.(interface{ CloseWrite() error })
			require.True(t, ok, "%s: a proxy ends one direction", name)
			time.Sleep(time.Minute) // no limit applies any more
			_, err = io.WriteString(both, "hello\n")
			require.NoError(t, err, name)
			text, err := io.ReadAll(both)
			require.NoError(t, err, name)
			require.Equal(t, "hello\n!", string(text))
			require.NoError(t, both.Close())
			require.EqualValues(t, 1, c.Breaker.Stats().Successes, name)
		})
	}
}

func TestAPartOfAnotherClientMustNotBeAddedAroundIt(t *testing.T) {
	t.Parallel()
	script := resiltest.NewScript()
	inner := newClient(t, standard.Config{HTTP: http.Client{Transport: script}})
	for _, p := range []client.Plugin{inner.Limit} {
		outer := newClient(t, standard.Config{HTTP: http.Client{Transport: inner.Pipeline}, Plugins: []client.Plugin{p}})
		require.Contains(t, outer.Pipeline.Check()[0], "must not be in the pipeline and in its base")
		_, err := outer.Get("http://one.test/")
		require.ErrorIs(t, err, core.ErrConfig)
	}
	require.Zero(t, script.Calls())
	other := breaker.NewClient(nil, breaker.ClientOptions{})
	around := newClient(t, standard.Config{HTTP: http.Client{Transport: inner.Pipeline}, Plugins: []client.Plugin{other}})
	require.Equal(t, []string{"client: retry.Client(standard) is around retry.Client(standard): each repeats the attempts of the other"}, around.Pipeline.Check())
}

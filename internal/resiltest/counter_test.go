package resiltest_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

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
		resp, err := c.RoundTrip(request(t.Context(), t, http.MethodGet, "http://a.test", ""))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, []string{"resiltest: 1 of 2 response bodies are not closed, 0 of 2 requests are in flight"}, tb.end())
		require.NoError(t, resp.Body.Close())
		require.NoError(t, resp.Body.Close())
		require.Equal(t, resiltest.Counts{Requests: 2, MostInFlight: 1, Opened: 2, Closed: 2, ClosedAgain: 1}, c.Counts())
	})
}

func TestCounterFailsTheTestWhenARequestIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := &fakeTB{}
		c := resiltest.Count(tb, resiltest.NewScript(resiltest.Reply{Delay: -1}))
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			go func() { _, _, _ = fetch(ctx, t, c, "http://a.test") }()
		}
		synctest.Wait()
		require.EqualValues(t, 3, c.Counts().InFlight)
		require.Len(t, tb.end(), 1)
		cancel()
		synctest.Wait()
		require.Equal(t, resiltest.Counts{Requests: 3, MostInFlight: 3}, c.Counts())
	})
}

func TestCounterWaitsForWhoClosesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := &fakeTB{}
		c := resiltest.Count(tb, resiltest.NewScript())
		resp, err := c.RoundTrip(request(t.Context(), t, http.MethodGet, "http://a.test", ""))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { _ = resp.Body.Close() })
		require.Empty(t, tb.end())
	})
}

func TestCounterKeepsTheWriterOfAnUpgradedConnection(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	base := resiltest.NewScript(resiltest.Reply{Do: func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: struct {
			io.ReadCloser
			io.Writer
		}{reader, writer}}, nil
	}})
	resp, err := resiltest.Count(t, base).RoundTrip(request(t.Context(), t, http.MethodGet, "http://a.test", ""))
	require.NoError(t, err)
	go func() { _, _ = resp.Body.(io.Writer).Write([]byte("ping")); _ = writer.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "ping", string(text))
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []int{1}, base.Closes())
}

func TestCounterClosesIdleConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), resiltest.NewScript())
		c := resiltest.Count(nil, srv.Transport())
		_, _, err := fetch(t.Context(), t, c, srv.URL)
		require.NoError(t, err)
		(&http.Client{Transport: c}).CloseIdleConnections()
		synctest.Wait()
		open, _ := srv.Conns()
		require.Zero(t, open)
		resiltest.Count(nil, resiltest.NewScript()).CloseIdleConnections() // it has none
	})
}

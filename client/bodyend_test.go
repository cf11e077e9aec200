package client_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/resiltest"
)

func TestOnBodyEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(io.ReadCloser){
		"closed":            func(b io.ReadCloser) { _ = b.Close() },
		"read to its end":   func(b io.ReadCloser) { _, _ = io.ReadAll(b) },
		"both, and again":   func(b io.ReadCloser) { _, _ = io.ReadAll(b); _ = b.Close(); _ = b.Close() },
		"closed in parts":   func(b io.ReadCloser) { _, _ = b.Read(make([]byte, 1)); _ = b.Close() },
		"by many at a time": func(b io.ReadCloser) { closeTogether(b) },
		"a read that fails": func(b io.ReadCloser) { _, _ = io.CopyN(io.Discard, b, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ends := 0
			resp := &http.Response{Body: io.NopCloser(io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(errDown)))}
			client.OnBodyEnd(resp, func() { ends++ })
			n, err := resp.Body.Read(make([]byte, 2))
			require.NoError(t, err)
			require.Equal(t, 2, n)
			require.Zero(t, ends, "there is more to read")
			end(resp.Body)
			require.Equal(t, 1, ends)
		})
	}
}

func closeTogether(b io.Closer) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { _ = b.Close() })
	}
	all.Wait()
}

func TestOnBodyEnd_Nested(t *testing.T) {
	t.Parallel()
	var ended []string
	resp := &http.Response{Body: resiltest.NewBody("x")}
	client.OnBodyEnd(resp, func() { ended = append(ended, "inner") })
	client.OnBodyEnd(resp, func() { ended = append(ended, "outer") })
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []string{"inner", "outer"}, ended)
	for _, none := range []*http.Response{nil, {}, {Body: http.NoBody}} {
		ended = nil
		client.OnBodyEnd(none, func() { ended = append(ended, "at once") })
		require.Len(t, ended, 1)
	}
}

type conn struct {
	io.ReadCloser
	strings.Builder
}

func TestOnBodyEnd_Upgraded(t *testing.T) {
	t.Parallel()
	ends := 0
	socket := &conn{ReadCloser: resiltest.NewBody("from the server")}
	resp := &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: socket}
	client.OnBodyEnd(resp, func() { ends++ })
	client.OnBodyEnd(resp, func() { ends++ })
	w, ok := resp.Body.(io.Writer)
	require.True(t, ok, "a websocket writes to the body")
	_, err := io.WriteString(w, "from the client")
	require.NoError(t, err)
	require.Equal(t, "from the client", socket.String())
	require.Equal(t, "from the server", readAll(t, resp.Body))
	require.Zero(t, ends, "the server has said all it had to, we may not have")
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 2, ends)

	client.OnBodyEnd(&http.Response{Body: resiltest.NewBody("x")}, func() {})
	resp = &http.Response{Body: resiltest.NewBody("x")}
	client.OnBodyEnd(resp, func() {})
	_, ok = resp.Body.(io.Writer)
	require.False(t, ok, "others are no writers")
}

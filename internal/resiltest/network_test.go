package resiltest_test

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

// pair is the two ends of a connection.
func pair(t *testing.T, n *resiltest.Network) (client, server net.Conn) {
	t.Helper()
	accepted := make(chan net.Conn)
	go func() { accepted <- core.Must(n.Accept()) }()
	client, err := n.DialContext(t.Context(), "tcp", "a.test:80")
	require.NoError(t, err)
	return client, <-accepted
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := resiltest.NewNetwork()
		client, server := pair(t, n)
		require.Equal(t, "a.test:80", client.RemoteAddr().String())
		require.Equal(t, "a.test:80", server.LocalAddr().String())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := n.DialContext(ctx, "tcp", "a.test:80")
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody accepts")
		_, err = n.DialContext(ctx, "tcp", "a.test:80")
		require.ErrorIs(t, err, context.DeadlineExceeded, "over before")
		time.AfterFunc(time.Minute, func() { _ = n.Close() })
		for _, when := range []string{"meanwhile", "before"} {
			_, err = n.DialContext(t.Context(), "tcp", "a.test:80")
			require.ErrorIs(t, err, syscall.ECONNREFUSED, "closed %s", when)
			var op *net.OpError
			require.ErrorAs(t, err, &op)
			require.Equal(t, "dial", op.Op)
		}
		require.NoError(t, n.Close(), "again")
		_, err = n.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestConnWritesWhatFitsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t, resiltest.NewNetwork())
		const fits = 64 << 10
		text := strings.Repeat("0123456789abcdef", fits/4) // four times that
		_, err := io.WriteString(client, text[:fits])
		require.NoError(t, err, "nobody reads")
		var more atomic.Bool
		go func() {
			_ = core.Must(io.WriteString(client, text[fits:fits+1]))
			more.Store(true)
			_ = core.Must(io.WriteString(client, text[fits+1:]))
			require.NoError(t, client.Close())
		}()
		synctest.Wait()
		require.False(t, more.Load(), "it is full")
		got, err := io.ReadAll(server)
		require.NoError(t, err, "what was written before Close comes, then io.EOF")
		require.Equal(t, text, string(got))
		_, err = io.WriteString(server, "x")
		require.ErrorIs(t, err, syscall.EPIPE)
		require.NoError(t, server.Close())
		_, err = server.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = io.WriteString(server, "x")
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestConnDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t, resiltest.NewNetwork())
		start := time.Now()
		require.NoError(t, client.SetDeadline(start.Add(time.Hour)))
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Equal(t, time.Hour, time.Since(start))

		require.NoError(t, client.SetReadDeadline(time.Time{}))
		time.AfterFunc(time.Hour, func() { _ = client.SetReadDeadline(time.Unix(1, 0)) }) // as net/http ends a read
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 2*time.Hour, time.Since(start))

		require.NoError(t, client.SetDeadline(time.Time{}))
		time.AfterFunc(time.Hour, func() { _, _ = io.WriteString(server, "x") })
		n, err := client.Read(make([]byte, 2))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		time.AfterFunc(time.Hour, func() { _ = client.Close() })
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed, "by its own side")
		require.Equal(t, 4*time.Hour, time.Since(start))
	})
}

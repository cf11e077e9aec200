package resiltest_test

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

// pair is the two ends of a connection.
func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	n := resiltest.NewNetwork()
	li := n.Listen("a.test:80")
	accepted := make(chan net.Conn)
	go func() { accepted <- core.Must(li.Accept()) }()
	client, err := n.DialContext(t.Context(), "tcp", "a.test:80")
	require.NoError(t, err)
	return client, <-accepted
}

func TestNetworkAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := resiltest.NewNetwork()
		_, err := n.DialContext(t.Context(), "tcp", "a.test:80")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, "dial", op.Op)

		a, rest := n.Listen("a.test:80"), n.Listen("")
		require.Panics(t, func() { n.Listen("a.test:80") })
		for addr, li := range map[string]net.Listener{"a.test:80": a, "b.test:443": rest} {
			accepted := make(chan net.Conn)
			go func() { accepted <- core.Must(li.Accept()) }()
			c, err := n.DialContext(t.Context(), "tcp", addr)
			require.NoError(t, err)
			require.Equal(t, addr, c.RemoteAddr().String())
			require.Equal(t, addr, (<-accepted).LocalAddr().String())
		}
		require.Equal(t, "a.test:80 server.test:80", a.Addr().String()+" "+rest.Addr().String())
		require.NoError(t, a.Close())
		require.NoError(t, a.Close(), "again")
		require.NoError(t, rest.Close())
		_, err = a.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = n.DialContext(t.Context(), "tcp", "a.test:80")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)

		deaf := n.Listen("a.test:80")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = n.DialContext(ctx, "tcp", "a.test:80")
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody accepts")
		_, err = n.DialContext(ctx, "tcp", "a.test:80")
		require.ErrorIs(t, err, context.DeadlineExceeded, "over before")
		time.AfterFunc(time.Minute, func() { _ = deaf.Close() })
		_, err = n.DialContext(t.Context(), "tcp", "a.test:80")
		require.ErrorIs(t, err, syscall.ECONNREFUSED, "closed meanwhile")
	})
}

func TestConnWritesWhatFitsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t)
		text := strings.Repeat("0123456789abcdef", 16<<10) // four times what fits
		_, err := io.WriteString(client, text[:64<<10])
		require.NoError(t, err, "nobody reads")
		require.NoError(t, client.SetWriteDeadline(time.Now().Add(time.Minute)))
		n, err := io.WriteString(client, "more")
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Zero(t, n)
		require.NoError(t, client.SetWriteDeadline(time.Time{}))
		go func() {
			_, err := io.WriteString(client, text[64<<10:])
			require.NoError(t, err)
			require.NoError(t, client.Close())
		}()
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
		client, server := pair(t)
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

package redistest_test

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/redistest"
)

// start starts a proxy before a server that says what it hears.
func start(t *testing.T) *redistest.Proxy {
	t.Helper()
	var lc net.ListenConfig
	echo, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return redistest.StartProxy(t, echo.Addr().String())
}

func dial(t *testing.T, p *redistest.Proxy) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", p.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// says sends a text, and returns what came back in a time.
func says(conn net.Conn, text string, within time.Duration) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(within))
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	b := make([]byte, len(text))
	_, err := io.ReadFull(conn, b)
	return string(b), err
}

const patient = 10 * time.Second

func TestProxy(t *testing.T) {
	t.Parallel()
	p := start(t)
	before, idle := dial(t, p), dial(t, p)
	passes := func(conns ...net.Conn) {
		t.Helper()
		for _, conn := range conns {
			got, err := says(conn, "hello", patient)
			require.NoError(t, err)
			require.Equal(t, "hello", got)
		}
	}
	passes(before, idle)

	p.Swallow()
	for _, conn := range []net.Conn{before, dial(t, p)} {
		_, err := says(conn, "x", 50*time.Millisecond)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	p.Resume()
	_, err := says(before, "x", patient)
	require.Error(t, err, "it has lost something")
	passes(idle, dial(t, p))

	p.Cut()
	for _, conn := range []net.Conn{idle, dial(t, p)} {
		_, err := says(conn, "x", patient)
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	p.Resume()
	conn := dial(t, p)
	passes(conn)

	// Each direction takes the time, but what is sent together arrives together.
	p.Delay(100 * time.Millisecond)
	began := time.Now()
	for range 5 {
		_, err := io.WriteString(conn, "x")
		require.NoError(t, err)
	}
	_, err = io.ReadFull(conn, make([]byte, 5))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	p.Delay(time.Hour)
	_, err = says(conn, "x", 10*time.Millisecond)
	require.Error(t, err)
	p.Close() // which waits, but not for that
}

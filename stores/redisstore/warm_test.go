package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redistest"
)

// A distant is servers behind proxies that delay what is sent.
type distant struct {
	client  redis.UniversalClient
	proxies []*redistest.Proxy
	trip    time.Duration
}

func (d distant) delay() {
	for _, p := range d.proxies {
		p.Delay(d.trip / 2)
	}
}

// cut closes all connections for a time.
func (d distant) cut(during func()) {
	for _, p := range d.proxies {
		p.Cut()
	}
	defer d.delay()
	for _, p := range d.proxies {
		defer p.Resume()
	}
	during()
}

func distantProxy(tb testing.TB, addr string) *redistest.Proxy {
	tb.Helper()
	p := redistest.StartProxy(tb, addr)
	return p
}

// distantServers are one server, one behind TLS, and a Cluster, at a distance.
func distantServers() map[string]func(t *testing.T, trip time.Duration) distant {
	return map[string]func(*testing.T, time.Duration) distant{
		"alone": func(t *testing.T, trip time.Duration) distant {
			t.Helper()
			srv := startServer(t)
			p := distantProxy(t, srv.Addr)
			return distant{srv.client(t, func(o *redis.Options) { o.Addr = p.Addr }), []*redistest.Proxy{p}, trip}
		},
		"tls": func(t *testing.T, trip time.Duration) distant {
			t.Helper()
			srv := startServer(t)
			p := distantProxy(t, terminateTLS(t, srv.Addr))
			return distant{srv.client(t, func(o *redis.Options) {
				o.PoolSize, o.Addr, o.TLSConfig = 160, p.Addr, &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate is of the test
			}), []*redistest.Proxy{p}, trip}
		},
		"cluster": func(t *testing.T, trip time.Duration) distant {
			t.Helper()
			proxies := map[string]*redistest.Proxy{}
			servers, client := startCluster(t, func(o *redis.ClusterOptions) {
				o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					var d net.Dialer
					return d.DialContext(ctx, network, proxies[addr].Addr)
				}
			})
			d := distant{client: client, trip: trip}
			for _, s := range servers {
				proxies[s.Addr] = distantProxy(t, s.Addr)
				d.proxies = append(d.proxies, proxies[s.Addr])
			}
			return d
		},
	}
}

// terminateTLS listens for TLS, and passes on what it decrypts.
func terminateTLS(t *testing.T, to string) string {
	t.Helper()
	certificates := httptest.NewTLSServer(nil)
	config := certificates.TLS.Clone()
	certificates.Close()
	config.NextProtos = nil
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", to)
				if err != nil {
					return
				}
				defer func() { _ = server.Close() }()
				go func() { _, _ = io.Copy(server, conn); _ = server.Close() }()
				_, _ = io.Copy(conn, server)
			}()
		}
	}()
	return l.Addr().String()
}

// A pull is callers that take all the time, on a key each or on one.
type pull struct {
	decided, failed atomic.Int64
	longest         atomic.Int64
	stop            func()
}

// until waits for more decisions of callers that run in real time.
func (p *pull) until(tb testing.TB, n *atomic.Int64, more int64) {
	tb.Helper()
	decided, failed, want := p.decided.Load(), p.failed.Load(), n.Load()+more
	for end := time.Now().Add(time.Minute); n.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			require.Fail(tb, "too few calls", "decided %d, failed %d", p.decided.Load()-decided, p.failed.Load()-failed)
		}
	}
}

func startPull(tb testing.TB, s *Store, callers int, key func(caller int) string) *pull {
	tb.Helper()
	l, err := ratelimit.New(ratelimit.Config{Name: "far", Store: s, Limit: ratelimit.PerHour(1 << 30), OnStoreError: ratelimit.Deny})
	require.NoError(tb, err)
	p := &pull{}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	p.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	tb.Cleanup(p.stop)
	for i := range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				_, err := l.Take(context.WithoutCancel(ctx), key(i), 1)
				if took := int64(time.Since(began)); took > p.longest.Load() {
					p.longest.Store(took)
				}
				if err == nil {
					p.decided.Add(1)
					continue
				}
				p.failed.Add(1)
				if errors.Is(err, ErrUnavailable) {
					time.Sleep(time.Millisecond) // as a service would not spin
				}
			}
		})
	}
	return p
}

// TestDistance: a connection takes several round trips, and a decision one. So a Timeout of two and a half is enough, also behind
// TLS. A store that had only failed before finds the server, and so does one whose connections were cut.
func TestDistance(t *testing.T) {
	t.Parallel()
	for name, start := range distantServers() {
		trip := 80 * time.Millisecond // the soak has the distances that are promised; a busy machine cannot keep them
		if name == "tls" {
			trip *= 2 // it takes more of the processor
		}
		timeout := trip * 5 / 2
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				d := start(t, trip)
				d.delay()
				s := newStore(t, d.client, Config{Mode: mode, Timeout: timeout})
				var p *pull
				d.cut(func() {
					p = startPull(t, s, 4, func(i int) string { return fmt.Sprint("k", i) })
					p.until(t, &p.failed, 2*failures)
				})
				quiettest.Test(t, func(t *quiettest.T) {
					p.until(t, &p.decided, 40)
					d.cut(func() { p.until(t, &p.failed, 2*failures) })
					p.until(t, &p.decided, 40)
				})
				p.stop()
				require.Less(t, time.Duration(p.longest.Load()), timeout+busy)
			})
		})
	}
}

// TestCutConnections: the client does not detect with TLS that idle connections were cut, so each fails once. The first
// failure has all of them closed.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	const idle = 160
	d := distantServers()["tls"](t, 0)
	client := d.client.(*redis.Client) //nolint:forcetypeassert // it is one
	var conns []*redis.Conn
	for range idle {
		conn := client.Conn()
		require.NoError(t, conn.Ping(t.Context()).Err())
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	d.cut(func() {})
	table := open(t, newStore(t, client, Config{}), "t")
	failed := 0
	require.Eventually(t, func() bool {
		_, err := table.Apply(t.Context(), "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
		if err != nil && !errors.Is(err, ErrUnavailable) {
			failed++
		}
		return err == nil
	}, busy, time.Millisecond)
	require.LessOrEqual(t, failed, 2*failures)
}

// TestDistanceWithManyCallers: with a client as it is, and a Timeout of three round trips, each caller fails some times
// until there is a connection for it, and never after that. `make soak` asks for the distances that are promised.
func TestDistanceWithManyCallers(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		checkManyCallers(t, mode, 150*time.Millisecond)
	})
}

func checkManyCallers(t *testing.T, mode Mode, trip time.Duration) {
	t.Helper()
	const callers = 64
	srv := startServer(t)
	proxy := distantProxy(t, srv.Addr)
	proxy.Delay(trip / 2)
	quiettest.Test(t, func(t *quiettest.T) {
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr, PoolSize: callers})
		defer func() { _ = client.Close() }()
		s, err := New(client, Config{Mode: mode, Timeout: 3 * trip})
		require.NoError(t, err)
		defer func() { _ = s.Close() }()
		p := startPull(t, s, callers, func(i int) string { return fmt.Sprint("k", i) })
		defer p.stop()
		began := time.Now()
		for failed := int64(-1); p.failed.Load() > failed; {
			require.Less(t, time.Since(began), 200*trip, "it fails all the time") // 4 s of 20 ms
			failed = p.failed.Load()
			p.until(t, &p.decided, 8*callers)
		}
	})
}

// TestDistanceNearTheTimeout: a round trip of seven tenths of Timeout leaves time for one,
// and a decision that comes while another is under way does not wait for its reply.
func TestDistanceNearTheTimeout(t *testing.T) {
	t.Parallel()
	for name, start := range distantServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				checkMostDecisions(t, start, mode, 400*time.Millisecond, keysOf(name != "alone"))
			})
		})
	}
}

// keysOf returns the key of each call: another one, or always the same.
func keysOf(many bool) func(i int) string {
	return func(i int) string {
		if many {
			return fmt.Sprint("k", i)
		}
		return "k"
	}
}

func checkMostDecisions(t *testing.T, start func(*testing.T, time.Duration) distant, mode Mode, timeout time.Duration, key func(int) string) {
	t.Helper()
	d := start(t, timeout*7/10)
	d.delay()
	s, err := New(d.client, Config{Mode: mode, Timeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	p := startPull(t, s, 8, key)
	quiettest.Test(t, func(t *quiettest.T) {
		var failed int64
		for range 15 { // while the connections are made, calls fail
			before := p.failed.Load()
			p.until(t, &p.decided, 30)
			if failed = p.failed.Load() - before; failed <= 6 {
				break
			}
		}
		require.LessOrEqual(t, failed, int64(6), "beside 30 that were decided")
	})
	p.stop()
	require.Less(t, time.Duration(p.longest.Load()), timeout+busy)
}

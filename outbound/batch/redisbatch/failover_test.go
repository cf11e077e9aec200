package redisbatch

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/redistest"
)

// TestAFailoverBehindOneAddress: connections that are open lead to the demoted server. No operation fails,
// and each record is added once.
func TestAFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	const idle, records = 40, 80
	r := redistest.StartRelay(t)
	client := redis.NewClient(&redis.Options{Addr: r.Addr, PoolSize: 2 * idle})
	t.Cleanup(func() { _ = client.Close() })
	var open []*redis.Conn
	for range idle {
		conn := client.Conn()
		require.NoError(t, conn.Ping(t.Context()).Err())
		open = append(open, conn)
	}
	for _, conn := range open {
		require.NoError(t, conn.Close())
	}
	s, err := New(client, Config{})
	require.NoError(t, err)
	u := newUser(t, s)
	u.add("a")
	r.Swap(t, false, "replicaof %s")
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Receive(u.ctx(), u.method, "process", time.Second); err != nil {
			t.Error(err)
		}
	})
	for range records {
		u.add("a")
	}
	wg.Wait()
	u.flush()
	b := u.lease(1 + records)
	require.Len(t, payloads(b), 1+records)
	u.settle(b)
}

// Package failover sends a command to Redis again after a server has refused it because it is not the
// primary, or not yet. After a failover behind one address, the connections of a client still lead to the
// demoted server, and only new ones lead to the promoted one.
package failover

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// sends is how often a command is sent at most: over a connection to the demoted server, over a new one, and
// before that over connections that were in use while the idle ones were closed. Where many callers share
// the client, one call can meet more than one of these.
const sends = 5

// Refused reports whether an error is the reply of a server that has not run a command, and that is not
// the one to ask: a replica, a primary without its replicas, or a server that loads its data. A script
// can end with such a reply too, at its first write.
func Refused(err error) bool {
	return err != nil && (redis.IsReadOnlyError(err) || redis.IsNoReplicasError(err) || redis.IsLoadingError(err) ||
		redis.IsMasterDownError(err) || redis.HasErrorPrefix(err, "UNBLOCKED")) // a blocking command, at the time of the demotion
}

// Conns are the connections of one client to one server. The zero value is ready to use.
type Conns struct {
	mu     sync.Mutex // while idle connections are closed
	closed atomic.Uint64
}

// Do calls f, which sends a command once. If the server has [Refused] it, Do closes the idle connections
// of the client, and calls f again at once, until ctx ends. It closes none of the client of a Cluster or a
// Ring, whose connections lead to several servers.
func (c *Conns) Do(ctx context.Context, client redis.UniversalClient, f func() error) error {
	for n := 1; ; n++ {
		before := c.closed.Load()
		err := f()
		if n == sends || !Refused(err) || ctx.Err() != nil {
			return err
		}
		c.close(ctx, client, before, n > 1)
	}
}

// Close closes the idle connections of the client, unless it is one of a Cluster or a Ring.
func (c *Conns) Close(ctx context.Context, client redis.UniversalClient) {
	c.close(ctx, client, c.closed.Load(), true)
}

// close closes the idle connections. If another call has done so since before, it closes one: that of the
// refusal, which the client has used last. After a second refusal it closes all again, as any number of
// connections can have been in use before.
func (c *Conns) close(ctx context.Context, client redis.UniversalClient, before uint64, again bool) {
	switch client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	most := uint32(math.MaxUint32)
	if c.closed.Load() != before && !again {
		most = 1
	}
	single := func() uint32 { return client.PoolStats().IdleConns }
	piped := func() uint32 {
		if s := client.PoolStats().PipelineStats; s != nil { // several commands go out over other connections
			return s.IdleConns
		}
		return 0
	}
	for n := min(single(), most); n > 0 && single() > 0 && ctx.Err() == nil; n-- {
		_ = client.Process(ctx, discard(ctx))
	}
	for n := min(piped(), most); n > 0 && piped() > 0 && ctx.Err() == nil; n-- {
		_, _ = client.Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Process(ctx, discard(ctx)) })
	}
	c.closed.Add(1)
}

var errDiscard = errors.New("failover: the connection is closed")

// discard returns a command that cannot be written, so the client closes the connection that it took for
// it. The client has no call for that.
func discard(ctx context.Context) redis.Cmder { return redis.NewCmd(ctx, "ping", unwritable{}) }

type unwritable struct{}

// MarshalBinary returns an error.
func (unwritable) MarshalBinary() ([]byte, error) { return nil, errDiscard }

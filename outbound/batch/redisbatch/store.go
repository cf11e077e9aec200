package redisbatch

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/failover"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/outbound/batch"
)

// A Store is a [batch.Store] in Redis. It is used by many goroutines at once.
type Store struct {
	cfg    Config
	client redis.UniversalClient
	conns  failover.Conns

	mu    sync.Mutex
	lanes map[string]*lane   // of the methods to which records were added
	boxes map[address]*inbox // of Receive

	last  atomic.Pointer[lane] // the one that was used last
	clock func() time.Time     // of tests; if nil, the time is that of the server
}

var _ batch.Store = (*Store)(nil)

// New makes a store over a client, which the caller owns. It sends nothing yet. It returns the errors of
// [Config.Validate], or a [*core.ConfigError] if the client is nil.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if identity.Missing(client) {
		return nil, &core.ConfigError{Field: "redisbatch client", Value: nil, Reason: "must not be nil"}
	}
	return &Store{cfg: cfg, client: client, lanes: map[string]*lane{}, boxes: map[address]*inbox{}}, nil
}

// epoch is the beginning of 2020 in microseconds. Times of scripts begin there, so that a number of
// Lua holds them exactly.
const epoch = 1577836800 * 1_000_000

func timeAt(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros + epoch)
}

// micros rounds up: nothing is early.
func micros(d time.Duration) int64 {
	n := d.Microseconds()
	if d%time.Microsecond > 0 {
		n++
	}
	return n
}

// head is the number of arguments that begin appends.
const head = 5

// begin appends the first arguments of all scripts. The name and the text of the script take the first two.
func (s *Store) begin(args []any, method string) []any {
	args = append(args, nil, nil, 1, keyPrefix(s.cfg.prefix(), method))
	if s.clock != nil {
		return append(args, s.clock().UnixMicro()-epoch)
	}
	return append(args, "")
}

// do runs a script with arguments, and returns at least so many parts of the reply.
func (s *Store) do(ctx context.Context, is *script, method string, parts int, more ...any) (reply, error) {
	args := append(s.begin(make([]any, 0, head+len(more)), method), more...)
	return s.run(ctx, is, parts, args)
}

func (s *Store) run(ctx context.Context, is *script, parts int, args []any) (reply, error) {
	var r []any
	err := s.conns.Do(ctx, s.client, func() (err error) {
		r, err = is.run(ctx, s.client, args)
		return err
	})
	switch {
	case err != nil:
		return nil, explain(err)
	case len(r) < parts:
		return nil, errReply
	}
	return r, nil
}

// A reply is the result of a script. Its methods return the zero value for a part of another type.
type reply []any

func (r reply) int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r reply) text(i int) string {
	s, _ := r[i].(string)
	return s
}

func (r reply) list(i int) reply {
	l, _ := r[i].([]any)
	return l
}

// at is text of a list that can be shorter.
func (r reply) at(i int) string {
	if i >= len(r) {
		return ""
	}
	return r.text(i)
}

// state reads the first three parts.
func (r reply) state() batch.State {
	next := time.Duration(r.int(1)) * time.Microsecond
	if next < 0 {
		next = -1
	}
	return batch.State{Due: r.int(0) == 1, Next: next, Records: int(r.int(2))}
}

func appendField(b []byte, s string) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}

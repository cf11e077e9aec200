package redisbatch

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/batch"
)

// A server is a redis-server of a test.
type server struct{ *redisserver.Server }

// startServer starts a redis-server on a port of its own, which ends with the test.
func startServer(tb testing.TB, args ...string) server {
	tb.Helper()
	return server{redistest.Start(tb, args...)}
}

func (s server) client(tb testing.TB) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// A clock is the time of a store, which a test sets.
type clock struct{ now time.Time }

func (c *clock) add(d time.Duration) { c.now = c.now.Add(d) }

// newStore makes a store whose time is that of the test.
func newStore(tb testing.TB, client redis.UniversalClient) (*Store, *clock) {
	tb.Helper()
	s, err := New(client, Config{})
	require.NoError(tb, err)
	c := &clock{now: time.Now().Truncate(time.Microsecond)}
	s.clock = func() time.Time { return c.now }
	return s, c
}

// setup starts a server, and makes a client, a store and a user of it.
func setup(tb testing.TB) (*redis.Client, *Store, *clock, *user) {
	tb.Helper()
	client := startServer(tb).client(tb)
	s, c := newStore(tb, client)
	return client, s, c, newUser(tb, s)
}

const (
	flushAfter = time.Minute
	leaseTime  = 30 * time.Second
)

// plenty are rules that refuse nothing.
var plenty = batch.Rules{MaxPending: 1 << 30, MaxGroups: 1 << 30} //nolint:gochecknoglobals // a constant

// A user uses a store in a test, for one method.
type user struct {
	testing.TB
	batch.Store
	method string
	rules  batch.Rules
	next   int
}

func newUser(tb testing.TB, s batch.Store) *user {
	tb.Helper()
	return &user{TB: tb, Store: s, method: "contacts", rules: plenty}
}

func (u *user) ctx() context.Context { return context.Background() }

// add adds a record and returns its ID.
func (u *user) add(option string, change ...func(*batch.Record)) batch.Added {
	u.Helper()
	u.next++
	rec := &batch.Record{ID: "id" + strconv.Itoa(u.next), Option: option, Payload: []byte("p" + strconv.Itoa(u.next)), Size: 10}
	for _, f := range change {
		f(rec)
	}
	added, err := u.Add(u.ctx(), u.method, rec, u.rules)
	require.NoError(u, err)
	return added
}

func (u *user) lease(most int) batch.Batch {
	u.Helper()
	u.next++
	b, _, err := u.Lease(u.ctx(), u.method, batch.Terms{ID: "batch" + strconv.Itoa(u.next), MaxRecords: most, FlushAfter: flushAfter, Lease: leaseTime})
	require.NoError(u, err)
	return b
}

func (u *user) ready() batch.State {
	u.Helper()
	s, err := u.Ready(u.ctx(), u.method, flushAfter)
	require.NoError(u, err)
	return s
}

func (u *user) flush(options ...string) {
	u.Helper()
	require.NoError(u, u.Flush(u.ctx(), u.method, options...))
}

func (u *user) settle(b batch.Batch, change ...func(*batch.Settlement)) {
	u.Helper()
	s := batch.Settlement{ID: b.ID, Delivery: b.Delivery, MaxFailed: 100}
	for _, f := range change {
		f(&s)
	}
	require.NoError(u, u.Settle(u.ctx(), u.method, s))
}

func (u *user) group(option string) batch.GroupInfo {
	u.Helper()
	l, err := u.Groups(u.ctx(), u.method, 1000)
	require.NoError(u, err)
	for _, g := range l.Groups {
		if g.Option == option {
			return g
		}
	}
	return batch.GroupInfo{}
}

func payloads(b batch.Batch) (all []string) {
	for _, r := range b.Records {
		all = append(all, string(r.Payload))
	}
	return all
}

func keyed(key string) func(*batch.Record) { return func(r *batch.Record) { r.Key = key } }

func untilDone(key string) func(*batch.Record) {
	return func(r *batch.Record) { r.Key, r.UntilDone = key, true }
}

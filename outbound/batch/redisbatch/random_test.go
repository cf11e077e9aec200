package redisbatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/batch"
)

// A twin applies the same random operations to a store in Redis and to one in memory.
type twin struct {
	*testing.T
	rnd           *rand.Rand
	redis, memory batch.Store
	next          int
	leases        []batch.Batch
	options       []string
	replies       [2][]batch.Reply
}

const (
	method = "a:b{c}"
	seeds  = 4
)

// same requires that both stores return the same.
func same[R any](t *twin, f func(s batch.Store) (R, error)) R {
	t.Helper()
	got, err := f(t.redis)
	want, wantErr := f(t.memory)
	require.Equal(t, want, got)
	require.Equal(t, wantErr, err)
	return got
}

func (t *twin) id(kind string) string {
	t.next++
	return kind + strconv.Itoa(t.next)
}

// or returns 0 or an hour: the clocks of the stores do not matter then.
func (t *twin) or() time.Duration { return time.Duration(t.rnd.IntN(2)) * time.Hour }

// lease returns the time of a lease that has expired by the next operation, or an hour.
func (t *twin) life() time.Duration { return max(time.Microsecond, t.or()) }

func (t *twin) option() string { return t.options[t.rnd.IntN(len(t.options))] }

func (t *twin) step() {
	switch n := t.rnd.IntN(20); {
	case n < 8:
		t.add()
	case n < 12:
		t.lease()
	case n < 15 && len(t.leases) > 0:
		t.settle()
	case n == 15 && len(t.leases) > 0:
		b, lease, waiting := t.leases[t.rnd.IntN(len(t.leases))], t.life(), t.rnd.IntN(2) == 0
		same(t, func(s batch.Store) (int, error) {
			return 0, s.Extend(t.Context(), method, b.ID, b.Delivery, lease, waiting)
		})
	case n == 16:
		option := t.option()
		same(t, func(s batch.Store) (int, error) { return 0, s.Flush(t.Context(), method, option) })
	case n == 17:
		option, paused, most := t.option(), t.rnd.IntN(3) == 0, t.rnd.IntN(5)
		same(t, func(s batch.Store) (int, error) {
			return 0, s.Pause(t.Context(), method, option, paused, most)
		})
	case n == 18:
		option := t.option()
		same(t, func(s batch.Store) (int, error) { return s.Retry(t.Context(), method, option) })
	case t.rnd.IntN(3) == 0:
		option := t.option()
		same(t, func(s batch.Store) (int, error) { return s.Delete(t.Context(), method, option) })
	}
}

func (t *twin) add() {
	rec := batch.Record{ID: t.id("r"), Option: t.option(), Payload: []byte(t.id("p")), Size: t.rnd.IntN(20)}
	if t.rnd.IntN(2) == 0 {
		rec.Key, rec.UntilDone = strconv.Itoa(t.rnd.IntN(5)), t.rnd.IntN(2) == 0
	}
	if t.rnd.IntN(2) == 0 {
		rec.ReplyTo = []batch.Address{{Process: "1:", Call: t.id("c")}}
	}
	rules := batch.Rules{FlushSize: t.rnd.IntN(3) * 5, MaxPending: 30, MaxGroups: 1 + t.rnd.IntN(5)}
	same(t, func(s batch.Store) (batch.Added, error) {
		rec := rec
		return s.Add(t.Context(), method, &rec, rules)
	})
}

func (t *twin) lease() {
	terms := batch.Terms{ID: t.id("b"), MaxRecords: 1 + t.rnd.IntN(8), MaxBytes: t.rnd.IntN(2) * 40, FlushAfter: t.or(), Lease: t.life()}
	type leased struct {
		batch.Batch
		due     bool
		records int
	}
	b := same(t, func(s batch.Store) (leased, error) {
		b, state, err := s.Lease(t.Context(), method, terms)
		for i := range b.Records {
			b.Records[i].Added = time.Time{} // by another clock
		}
		b = export(b)
		return leased{b, state.Due, state.Records}, err
	})
	if len(b.Records) > 0 {
		t.leases = append(t.leases, b.Batch)
	}
}

// export leaves only what other packages can see.
func export(b batch.Batch) batch.Batch {
	for i, r := range b.Records {
		b.Records[i] = batch.Record{
			ID: r.ID, Option: r.Option, Key: r.Key, UntilDone: r.UntilDone && r.Key != "", Payload: r.Payload,
			Size: r.Size, ReplyTo: r.ReplyTo, Attempts: r.Attempts,
		}
	}
	return b
}

func (t *twin) settle() {
	i := t.rnd.IntN(len(t.leases))
	b := t.leases[i]
	s := batch.Settlement{ID: b.ID, Delivery: b.Delivery, MaxFailed: t.rnd.IntN(5)}
	again, other := batch.Part{ID: b.ID, After: t.or(), Attempt: true}, batch.Part{ID: t.id("b"), After: t.or(), Attempt: t.rnd.IntN(2) == 0, Losses: t.rnd.IntN(4)}
	for n := range b.Records {
		o := batch.Outcome{Record: n, Payload: []byte(t.id("o"))}
		switch t.rnd.IntN(6) {
		case 0:
			s.Failed, o.Payload, o.Error = append(s.Failed, n), nil, t.id("failed")
		case 1:
			again.Records = append(again.Records, n)
			continue
		case 2:
			other.Records = append(other.Records, n)
			continue
		}
		s.Results = append(s.Results, o)
	}
	for _, p := range []batch.Part{again, other} {
		if len(p.Records) > 0 {
			s.Parts = append(s.Parts, p)
		}
	}
	if len(s.Failed) > 0 {
		s.Error = t.id("error")
	}
	same(t, func(st batch.Store) (int, error) { return 0, st.Settle(t.Context(), method, s) })
	t.leases = slices.Delete(t.leases, i, i+1)
}

// check compares what can be seen.
func (t *twin) check() {
	same(t, func(s batch.Store) ([2]any, error) {
		state, err := s.Ready(t.Context(), method, time.Hour)
		return [2]any{state.Due, state.Records}, err
	})
	same(t, func(s batch.Store) (batch.Listing, error) {
		l, err := s.Groups(t.Context(), method, 100)
		for i := range l.Groups {
			g := &l.Groups[i]
			for _, at := range []*time.Time{&g.Oldest, &g.LastCall, &g.LastErrorAt} {
				if !at.IsZero() {
					*at = time.Unix(1, 0) // by another clock
				}
			}
		}
		slices.SortFunc(l.Groups, func(a, b batch.GroupInfo) int {
			if a.Option < b.Option {
				return -1
			}
			return 1
		})
		return l, err
	})
	for i, s := range []batch.Store{t.redis, t.memory} {
		found, err := s.Receive(t.Context(), method, "1:", 0)
		require.NoError(t, err)
		for _, r := range found {
			t.replies[i] = append(t.replies[i], batch.Reply{Call: r.Call, Payload: r.Payload, Error: r.Error, Deleted: r.Deleted})
		}
	}
	for _, replies := range t.replies {
		slices.SortFunc(replies, func(a, b batch.Reply) int { return compare(a.Call, b.Call) })
	}
	require.Equal(t, t.replies[1], t.replies[0])
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// TestTheSameAsInMemory: random operations have the same results as on the store in memory, which is
// another implementation. Times are 0 or an hour, so clocks do not matter.
func TestTheSameAsInMemory(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			require.NoError(t, client.FlushAll(t.Context()).Err())
			s, err := New(client, Config{})
			require.NoError(t, err)
			tw := &twin{T: t, rnd: rand.New(rand.NewPCG(seed, 0)), redis: s, memory: batch.NewMemory(), options: []string{"", "a:b", "{x}", "ü\x00"}} //nolint:gosec // repeatable
			for range 300 {
				tw.step()
				tw.check()
			}
			require.NotEmpty(t, tw.replies[0])
		})
	}
}

package batchtest

import (
	"crypto/rand"
	"strconv"
	"testing"
	"time"

	"github.com/gresil/gresil/outbound/batch"
)

const (
	long    = time.Hour
	brief   = 50 * time.Millisecond
	patient = time.Minute // the longest wait for something that is due
)

// A kit is a store with a method of its own.
type kit struct {
	*testing.T
	batch.Store
	method string
}

func newKit(t *testing.T, open func(t *testing.T) batch.Store) *kit {
	t.Helper()
	return &kit{T: t, Store: open(t), method: rand.Text() + " " + t.Name()}
}

func id() string { return rand.Text() }

func roomy() batch.Rules { return batch.Rules{MaxPending: 1_000_000, MaxGroups: 10_000} }

func (k *kit) addRecord(rec batch.Record, rules batch.Rules) batch.Added {
	k.Helper()
	if rec.ID == "" {
		rec.ID = id()
	}
	added, err := k.Add(k.Context(), k.method, &rec, rules)
	k.noError(err)
	return added
}

// add adds records with these contents.
func (k *kit) add(option string, contents ...string) {
	k.Helper()
	for _, c := range contents {
		k.addRecord(batch.Record{Option: option, Payload: []byte(c), Size: len(c)}, roomy())
	}
}

func (k *kit) lease(terms batch.Terms) batch.Batch {
	k.Helper()
	if terms.ID == "" {
		terms.ID = id()
	}
	if terms.Lease == 0 {
		terms.Lease = long
	}
	if terms.MaxRecords == 0 {
		terms.MaxRecords = 200
	}
	b, state, err := k.Lease(k.Context(), k.method, terms)
	k.noError(err)
	if len(b.Records) == 0 {
		k.isFalse(state.Due, "nothing was leased though a group is due")
	}
	return b
}

// eventually leases a batch that becomes due by time.
func (k *kit) eventually(terms batch.Terms) batch.Batch {
	k.Helper()
	for start := time.Now(); time.Since(start) < patient; time.Sleep(2 * time.Millisecond) {
		if b := k.lease(terms); len(b.Records) > 0 {
			return b
		}
	}
	k.fail(nil, "nothing becomes due")
	return batch.Batch{}
}

func (k *kit) flush(options ...string) {
	k.Helper()
	k.noError(k.Flush(k.Context(), k.method, options...))
}

func (k *kit) state(flushAfter time.Duration) batch.State {
	k.Helper()
	state, err := k.Ready(k.Context(), k.method, flushAfter)
	k.noError(err)
	return state
}

func settlement(b *batch.Batch) batch.Settlement {
	return batch.Settlement{ID: b.ID, Delivery: b.Delivery, MaxFailed: 100}
}

func (k *kit) settle(s batch.Settlement) {
	k.Helper()
	k.noError(k.Settle(k.Context(), k.method, s))
}

// done settles a batch as sent.
func (k *kit) done(b batch.Batch) {
	k.Helper()
	k.settle(settlement(&b))
}

func (k *kit) group(option string) (batch.GroupInfo, bool) {
	k.Helper()
	listing, err := k.Groups(k.Context(), k.method, 1000)
	k.noError(err)
	for _, g := range listing.Groups {
		if g.Option == option {
			return g, true
		}
	}
	return batch.GroupInfo{}, false
}

func (k *kit) replies(process string) map[string]batch.Reply {
	k.Helper()
	replies, err := k.Receive(k.Context(), k.method, process, time.Millisecond)
	k.noError(err)
	byCall := map[string]batch.Reply{}
	for _, r := range replies {
		byCall[r.Call] = r
	}
	return byCall
}

func contents(b batch.Batch) (all []string) {
	for _, r := range b.Records {
		all = append(all, string(r.Payload))
	}
	return all
}

func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

func indexes(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

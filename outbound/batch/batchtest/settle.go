package batchtest

import (
	"time"

	"github.com/gresil/gresil/outbound/batch"
)

func retrySame(k *kit) {
	k.add("a", "1", "2")
	b := k.lease(batch.Terms{})
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: b.ID, Records: []int{0, 1}, After: brief, Attempt: true}}
	s.Error = "vendor: limited"
	start := time.Now()
	k.settle(s)
	g, _ := k.group("a")
	k.equal(2, g.Retrying)
	k.zero(g.InFlight)
	k.equal("vendor: limited", g.LastError)
	k.recent(g.LastErrorAt)
	k.add("a", "3")
	k.isTrue(k.state(long).Next > 0)
	again := k.eventually(batch.Terms{FlushAfter: long})
	k.atLeast(brief-time.Millisecond, time.Since(start))
	k.equal(b.ID, again.ID)
	k.equal(2, again.Delivery)
	k.isFalse(again.Expired)
	k.equal([]string{"1", "2"}, contents(again))
	k.equal(1, again.Records[0].Attempts)
	k.equal(b.Records[1].ID, again.Records[1].ID)
	s.Parts[0].After, s.Parts[0].Attempt, s.Delivery = 0, false, 2
	k.settle(s)
	again = k.lease(batch.Terms{FlushAfter: long})
	k.equal(3, again.Delivery)
	k.equal(1, again.Records[0].Attempts, "a batch that is given back uses no attempt")
}

func parts(k *kit) {
	k.add("a", numbers(0, 6)...)
	b := k.lease(batch.Terms{})
	s := settlement(&b)
	s.Failed = []int{5}
	s.Parts = []batch.Part{{ID: "left", Records: []int{0, 1}}, {ID: "right", Records: []int{3, 4}}, {ID: "later", Records: nil, After: long}}
	s.Parts = s.Parts[:2]
	k.settle(s)
	k.equal(4, k.state(long).Records, "2 is done, 5 has failed")
	left, right := k.lease(batch.Terms{}), k.lease(batch.Terms{})
	k.equal("left", left.ID)
	k.equal(1, left.Delivery)
	k.equal([]string{"0", "1"}, contents(left))
	k.equal("right", right.ID)
	k.equal([]string{"3", "4"}, contents(right))
	k.zero(right.Records[0].Attempts)
	k.isError(k.Extend(k.Context(), k.method, b.ID, 1, long, false), batch.ErrLeaseLost)
	k.done(left)
	k.done(right)
	k.length(0, k.lease(batch.Terms{}).Records)
}

func expiry(k *kit) {
	k.add("a", "1", "2")
	first := k.lease(batch.Terms{Lease: brief})
	second := k.eventually(batch.Terms{Lease: brief})
	k.equal(first.ID, second.ID)
	k.equal(2, second.Delivery)
	k.isTrue(second.Expired)
	k.equal(contents(first), contents(second))
	k.zero(second.Records[0].Attempts, "an expired lease is no attempt")
	k.isError(k.Settle(k.Context(), k.method, settlement(&first)), batch.ErrLeaseLost)
	k.isError(k.Extend(k.Context(), k.method, first.ID, 1, long, false), batch.ErrLeaseLost)
	third := k.eventually(batch.Terms{})
	k.equal(3, third.Delivery)
	k.isTrue(third.Expired)
	k.isError(k.Settle(k.Context(), k.method, settlement(&second)), batch.ErrLeaseLost)
	k.done(third)
	k.zero(k.state(0).Records)
}

func losses(k *kit) {
	k.add("a", "1", "2")
	lose := func(waiting bool) batch.Batch {
		b := k.eventually(batch.Terms{})
		if waiting {
			k.noError(k.Extend(k.Context(), k.method, b.ID, b.Delivery, long, true))
		}
		k.noError(k.Extend(k.Context(), k.method, b.ID, b.Delivery, time.Millisecond, waiting))
		return b
	}
	for _, step := range []struct {
		waiting bool
		losses  int // before
	}{{false, 0}, {true, 1}, {false, 1}, {true, 2}} {
		k.equal(step.losses, lose(step.waiting).Losses)
	}
	b := k.eventually(batch.Terms{})
	k.equal(2, b.Losses, "a lease that waits is no loss")
	k.noError(k.Extend(k.Context(), k.method, b.ID, b.Delivery, long, true))
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: b.ID, Records: []int{0}, Losses: b.Losses}, {ID: "half", Records: []int{1}, Losses: 1}}
	k.settle(s)
	b = k.lease(batch.Terms{})
	k.equal(2, b.Losses)
	k.isFalse(b.Expired)
	k.done(b)
	k.equal(1, lose(false).Losses)
	b = k.eventually(batch.Terms{})
	k.equal(2, b.Losses)
	s = settlement(&b)
	for range 3 {
		s.Delivery = 1
		k.isError(k.Settle(k.Context(), k.method, s), batch.ErrLeaseLost)
	}
	k.noError(k.Extend(k.Context(), k.method, b.ID, b.Delivery, time.Millisecond, false))
	b = k.eventually(batch.Terms{})
	k.equal(1, b.Losses, "the process of the first lease has not ended")
	s = settlement(&b)
	s.Parts = []batch.Part{{ID: b.ID, Records: []int{0}, Attempt: true}}
	k.settle(s)
	k.zero(k.lease(batch.Terms{}).Losses)
}

func lateSettle(k *kit) {
	k.add("a", "1")
	b := k.lease(batch.Terms{Lease: brief})
	for start := time.Now(); !k.state(long).Due && time.Since(start) < patient; {
		time.Sleep(time.Millisecond)
	}
	k.isTrue(k.state(long).Due, "the lease has expired")
	k.noError(k.Extend(k.Context(), k.method, b.ID, 1, long, false))
	k.isFalse(k.state(long).Due, "the lease goes on")
	k.noError(k.Extend(k.Context(), k.method, b.ID, 1, time.Millisecond, false))
	for start := time.Now(); !k.state(long).Due && time.Since(start) < patient; {
		time.Sleep(time.Millisecond)
	}
	k.done(b)
	k.equal(batch.State{Next: -1}, k.state(long))
	k.length(0, k.lease(batch.Terms{}).Records)
}

func extend(k *kit) {
	k.add("a", "1")
	k.add("b", "2")
	b := k.lease(batch.Terms{Lease: 10 * time.Second})
	k.noError(k.Extend(k.Context(), k.method, b.ID, b.Delivery, long, false))
	other := k.lease(batch.Terms{Lease: 2 * brief}) // the yardstick
	k.equal(other.ID, k.eventually(batch.Terms{}).ID)
	k.isTrue(k.state(long).Next > long/2)
	k.isError(k.Extend(k.Context(), k.method, "unknown", 1, long, false), batch.ErrLeaseLost)
	k.done(b)
	k.isError(k.Extend(k.Context(), k.method, b.ID, b.Delivery, long, false), batch.ErrLeaseLost)
}

func settleTwice(k *kit) {
	k.add("a", "1", "2")
	b := k.lease(batch.Terms{})
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: b.ID, Records: []int{0, 1}, Attempt: true}}
	k.settle(s)
	k.isError(k.Settle(k.Context(), k.method, s), batch.ErrLeaseLost)
	b = k.lease(batch.Terms{})
	k.equal(1, b.Records[0].Attempts)
	k.done(b)
	k.isError(k.Settle(k.Context(), k.method, settlement(&b)), batch.ErrLeaseLost)
}

func failed(k *kit) {
	for _, c := range numbers(0, 6) {
		k.addRecord(keyed("k"+c, c, true), roomy())
	}
	b := k.lease(batch.Terms{})
	s := settlement(&b)
	s.Failed, s.MaxFailed, s.Error = indexes(6), 5, "poison"
	k.settle(s)
	g, ok := k.group("a")
	k.isTrue(ok)
	k.equal(5, g.Failed)
	k.equal(int64(1), g.Dropped)
	k.zero(g.Pending + g.InFlight + g.Retrying + g.Unique)
	k.equal(batch.State{Next: -1}, k.state(0))
	n, err := k.Retry(k.Context(), k.method, "unknown")
	k.noError(err)
	k.zero(n)
	k.add("a", "before")
	n, err = k.Retry(k.Context(), k.method, "a")
	k.noError(err)
	k.equal(5, n)
	k.isFalse(k.addRecord(keyed("k3", "x", true), roomy()).Replaced, "they are not unique any longer")
	b = k.lease(batch.Terms{FlushAfter: long, MaxRecords: 6})
	k.equal([]string{"before", "1", "2", "3", "4", "5"}, contents(b))
	k.zero(b.Records[5].Attempts)
	k.length(0, k.lease(batch.Terms{FlushAfter: long}).Records)
}

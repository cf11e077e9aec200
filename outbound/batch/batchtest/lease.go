package batchtest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/outbound/batch"
)

func order(k *kit) {
	k.add("a", numbers(0, 379)...)
	first := k.lease(batch.Terms{ID: "first"})
	k.equal("first", first.ID)
	k.equal("a", first.Option)
	k.equal(1, first.Delivery)
	k.isFalse(first.Expired)
	k.equal(numbers(0, 200), contents(first))
	k.equal(379, k.state(0).Records)
	second := k.lease(batch.Terms{})
	k.equal(numbers(200, 379), contents(second))
	k.length(0, k.lease(batch.Terms{}).Records)
	k.done(second)
	k.equal(200, k.state(0).Records)
	k.done(first)
	k.equal(batch.State{Next: -1}, k.state(0))
	_, ok := k.group("a")
	k.isFalse(ok, "a group without records is gone")
}

func repeatedLease(k *kit) {
	k.add("a", "1", "2", "3")
	terms := batch.Terms{ID: "x", MaxRecords: 2}
	first := k.lease(terms)
	k.equal(first, k.lease(terms), "its reply was lost")
	terms.ID = "y"
	k.equal([]string{"3"}, contents(k.lease(terms)))
	for _, id := range []string{"x", "y"} {
		k.noError(k.Extend(k.Context(), k.method, id, 1, brief, false))
	}
	terms.ID = "z"
	for range 2 { // both leases expire
		k.equal(2, k.eventually(terms).Delivery)
	}
	again := func() batch.Batch {
		b, _, err := k.Lease(k.Context(), k.method, batch.Terms{ID: "x", MaxRecords: 2, Lease: long})
		k.noError(err)
		return b
	}
	k.length(0, again().Records, "it is not known which process has it")
}

func maxBytes(k *kit) {
	k.add("a", "12", "3456", "789", strings.Repeat("x", 20), "0")
	terms := batch.Terms{MaxBytes: 9}
	k.equal([]string{"12", "3456", "789"}, contents(k.lease(terms)))
	k.length(1, k.lease(terms).Records, "a record that is larger goes alone")
	k.equal([]string{"0"}, contents(k.lease(terms)))
}

func dueByAge(k *kit) {
	k.equal(batch.State{Next: -1}, k.state(long))
	k.add("a", "1")
	state := k.state(long)
	k.isFalse(state.Due)
	k.isTrue(state.Next > 0)
	k.isTrue(state.Next <= long)
	k.length(0, k.lease(batch.Terms{FlushAfter: long}).Records)
	start := time.Now()
	k.add("b", "2")
	for _, option := range []string{"a", "b"} {
		b := k.eventually(batch.Terms{FlushAfter: brief})
		k.equal(option, b.Option, "the oldest first")
	}
	k.atLeast(brief-time.Millisecond, time.Since(start))
	k.add("a", "3")
	k.isFalse(k.state(long).Due, "a later record waits as the first did")
}

func flushMark(k *kit) {
	k.flush("a", "b")
	k.add("a", "1", "2", "3")
	k.add("b", "x")
	k.flush("a", "unknown")
	k.isTrue(k.state(long).Due)
	k.add("a", "4", "5", "6")
	later := batch.Terms{FlushAfter: long, MaxRecords: 2}
	k.equal([]string{"1", "2"}, contents(k.lease(later)))
	k.equal([]string{"3", "4"}, contents(k.lease(later)), "a later record is taken along")
	k.length(0, k.lease(later).Records, "the others are not due")
	k.flush("a")
	k.add("a", "7", "8")
	later.MaxRecords = 3
	k.equal([]string{"5", "6", "7"}, contents(k.lease(later)))
	k.length(0, k.lease(later).Records)
}

func flushAll(k *kit) {
	k.flush()
	for _, option := range []string{"a", "b", "c"} {
		k.add(option, "1")
	}
	k.flush()
	k.add("d", "1")
	var options []string
	for range 3 {
		options = append(options, k.lease(batch.Terms{FlushAfter: long}).Option)
	}
	slices.Sort(options)
	k.equal([]string{"a", "b", "c"}, options)
	k.length(0, k.lease(batch.Terms{FlushAfter: long}).Records)
}

func dueBySize(k *kit) {
	rules := roomy()
	rules.FlushSize = 5
	for i := range 7 {
		added := k.addRecord(batch.Record{Option: "a", Payload: []byte("x")}, rules)
		k.equal(i >= 4, added.Due, i)
		k.equal(i >= 4, k.state(long).Due)
	}
	k.length(6, k.lease(batch.Terms{FlushAfter: long, MaxRecords: 6}).Records)
	k.length(1, k.lease(batch.Terms{FlushAfter: long}).Records, "it was due by size too")
	for i := range 5 {
		k.equal(i == 4, k.addRecord(batch.Record{Option: "a"}, rules).Due)
	}
}

func turns(k *kit) {
	k.add("a", numbers(0, 5)...)
	k.flush("a")
	k.add("b", "0")
	k.add("c", numbers(0, 3)...)
	k.flush("b")
	k.flush("c")
	var got []string
	for range 3 {
		got = append(got, k.lease(batch.Terms{MaxRecords: 1, FlushAfter: long}).Option)
	}
	k.add("d", "0", "1")
	k.flush("d") // it joins at the end
	for range 8 {
		got = append(got, k.lease(batch.Terms{MaxRecords: 1, FlushAfter: long}).Option)
	}
	k.equal("a b c a c d a c d a a", strings.Join(got, " "))
}

func concurrent(k *kit) {
	const workers, records = 8, 2000
	var adding sync.WaitGroup
	for w := range 4 {
		adding.Go(func() { k.add(string(rune('a'+w)), numbers(0, records/4)...) })
	}
	adding.Wait()
	var mu sync.Mutex
	seen := map[string][]string{}
	var leasing sync.WaitGroup
	for range workers {
		leasing.Go(func() {
			for {
				b := k.lease(batch.Terms{MaxRecords: 7})
				if len(b.Records) == 0 {
					return
				}
				mu.Lock()
				seen[b.Option] = append(seen[b.Option], contents(b)...)
				mu.Unlock()
				k.done(b)
			}
		})
	}
	leasing.Wait()
	k.length(4, seen)
	for _, got := range seen {
		want := numbers(0, records/4)
		slices.Sort(got)
		slices.Sort(want)
		k.equal(want, got)
	}
	k.zero(k.state(0).Records)
}

func large(k *kit) {
	const n = 9000 // more than Lua can unpack
	rules := roomy()
	var adding sync.WaitGroup
	for w := range 30 {
		adding.Go(func() {
			for i := w; i < n; i += 30 {
				k.addRecord(batch.Record{Option: "a", Key: numbers(i, i+1)[0], UntilDone: i%2 == 0, Payload: []byte("x"), Size: 1}, rules)
			}
		})
	}
	adding.Wait()
	b := k.lease(batch.Terms{MaxRecords: n})
	k.length(n, b.Records)
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: b.ID, Records: indexes(n), Attempt: true}}
	k.settle(s)
	b = k.lease(batch.Terms{})
	k.length(n, b.Records)
	s = settlement(&b)
	s.Failed, s.MaxFailed = indexes(n), n
	k.settle(s)
	count, err := k.Retry(k.Context(), k.method, "a")
	k.noError(err)
	k.equal(n, count)
	count, err = k.Delete(k.Context(), k.method, "a")
	k.noError(err)
	k.equal(n, count)
	k.equal(batch.State{Next: -1}, k.state(0))
}

package batchtest

import (
	"bytes"
	"crypto/rand"
	"time"

	"github.com/gresil/gresil/outbound/batch"
)

func (k *kit) pause(option string, paused bool) {
	k.Helper()
	k.noError(k.Pause(k.Context(), k.method, option, paused, 1000))
}

func paused(k *kit) {
	k.pause("none", false)
	_, ok := k.group("none")
	k.isFalse(ok)
	k.add("a", "1", "2", "3")
	b := k.lease(batch.Terms{MaxRecords: 1})
	k.pause("a", true)
	k.add("a", "4")
	k.add("b", "x")
	k.flush("a")
	k.equal("b", k.lease(batch.Terms{}).Option)
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: b.ID, Records: []int{0}}}
	k.settle(s)
	k.length(0, k.lease(batch.Terms{}).Records)
	k.isFalse(k.state(0).Due)
	g, _ := k.group("a")
	k.isTrue(g.Paused)
	k.isTrue(g.Due)
	k.pause("a", false)
	k.equal([]string{"1"}, contents(k.lease(batch.Terms{FlushAfter: long})))
	k.equal([]string{"2", "3", "4"}, contents(k.lease(batch.Terms{FlushAfter: long})))

	k.pause("empty", true)
	g, ok = k.group("empty")
	k.isTrue(ok, "a pause needs no record")
	k.isTrue(g.Paused)
	k.add("empty", "1")
	k.length(0, k.lease(batch.Terms{}).Records)
	k.pause("empty", false)
	k.equal("empty", k.lease(batch.Terms{}).Option)
	k.isError(k.Pause(k.Context(), k.method, "one more", true, 1), batch.ErrGroups)
}

func deleted(k *kit) {
	to := func(call string) []batch.Address { return []batch.Address{{Process: "p" + k.method, Call: call}} }
	k.add("a", "leased")
	leased := k.lease(batch.Terms{})
	k.add("a", "retried")
	b := k.lease(batch.Terms{})
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: b.ID, Records: []int{0}, After: long}}
	k.settle(s)
	k.add("a", "failed")
	b = k.lease(batch.Terms{})
	s = settlement(&b)
	s.Failed = []int{0}
	k.settle(s)
	k.addRecord(batch.Record{Option: "a", Key: "k", ReplyTo: to("1")}, roomy())
	k.addRecord(batch.Record{Option: "a", ReplyTo: to("2")}, roomy())
	k.add("b", "1")
	k.pause("a", true)
	n, err := k.Delete(k.Context(), k.method, "a")
	k.noError(err)
	k.equal(4, n)
	replies := k.replies("p" + k.method)
	k.equal(batch.Reply{Call: "1", Deleted: true}, replies["1"])
	k.length(2, replies)
	k.equal(2, k.state(long).Records, "the leased one, and that of b")
	k.addRecord(batch.Record{Option: "a", Key: "k"}, roomy())
	k.flush("a")
	k.length(1, k.lease(batch.Terms{FlushAfter: long}).Records, "the pause is over, the key is free")
	k.done(leased)
	n, err = k.Delete(k.Context(), k.method, "unknown")
	k.noError(err)
	k.zero(n)
	k.equal("b", k.lease(batch.Terms{}).Option)
}

func full(k *kit) {
	rules := batch.Rules{MaxPending: 3, MaxGroups: 2}
	add := func(option, key string) error {
		_, err := k.Add(k.Context(), k.method, &batch.Record{ID: id(), Option: option, Key: key}, rules)
		return err
	}
	k.noError(add("a", "k"))
	k.noError(add("b", ""))
	k.isError(add("c", ""), batch.ErrGroups)
	k.noError(add("b", ""))
	k.isError(add("b", ""), batch.ErrFull)
	k.noError(add("a", "k")) // it replaces a record
	b := k.lease(batch.Terms{})
	k.isError(add("b", ""), batch.ErrFull) // a record in a batch is not done
	k.done(b)
	k.noError(add("c", "")) // a group that is empty does not count
}

func replies(k *kit) {
	p, q := "p"+k.method, "q"+k.method
	rec := keyed("k", "1", true)
	rec.ReplyTo = []batch.Address{{Process: p, Call: "c1"}}
	k.addRecord(rec, roomy())
	rec.ReplyTo = []batch.Address{{Process: q, Call: "c2"}}
	k.addRecord(rec, roomy())
	k.addRecord(batch.Record{Option: "a", ReplyTo: []batch.Address{{Process: p, Call: "c3"}}}, roomy())
	b := k.lease(batch.Terms{})
	k.equal([]batch.Address{{Process: p, Call: "c1"}, {Process: q, Call: "c2"}}, b.Records[0].ReplyTo)
	rec.ReplyTo = []batch.Address{{Process: q, Call: "c4"}} // after the lease
	k.addRecord(rec, roomy())
	k.length(0, k.replies(p))
	s := settlement(&b)
	s.Failed = []int{1}
	s.Results = []batch.Outcome{{Record: 0, Payload: []byte(`"yes"`)}, {Record: 1, Error: "no"}}
	k.settle(s)
	k.equal(map[string]batch.Reply{
		"c1": {Call: "c1", Payload: []byte(`"yes"`)}, "c3": {Call: "c3", Error: "no"},
	}, k.replies(p))
	k.equal(map[string]batch.Reply{
		"c2": {Call: "c2", Payload: []byte(`"yes"`)}, "c4": {Call: "c4", Payload: []byte(`"yes"`)},
	}, k.replies(q))
	k.length(0, k.replies(p), "a reply is received once")
	_, err := k.Retry(k.Context(), k.method, "a")
	k.noError(err)
	k.length(0, k.lease(batch.Terms{}).Records[0].ReplyTo, "its Call has its reply")
}

func receiveWaits(k *kit) {
	p := "p" + k.method
	k.addRecord(batch.Record{Option: "a", ReplyTo: []batch.Address{{Process: p, Call: "c"}}}, roomy())
	b := k.lease(batch.Terms{})
	received := make(chan []batch.Reply)
	go func() {
		replies, _ := k.Receive(k.Context(), k.method, p, patient)
		received <- replies
	}()
	time.Sleep(brief) // it waits, or the test is of no use, but passes
	s := settlement(&b)
	s.Results = []batch.Outcome{{Record: 0, Payload: []byte("1")}}
	k.settle(s)
	k.equal([]batch.Reply{{Call: "c", Payload: []byte("1")}}, <-received)
}

func described(k *kit) {
	k.add("a", "123", "4567", "8")
	k.addRecord(keyed("k", "x", false), roomy())
	b := k.lease(batch.Terms{MaxRecords: 2})
	g, ok := k.group("a")
	k.isTrue(ok)
	for _, at := range []time.Time{g.Oldest, g.LastCall} {
		k.recent(at)
	}
	g.Oldest, g.LastCall = time.Time{}, time.Time{}
	k.equal(batch.GroupInfo{Method: k.method, Option: "a", Pending: 2, Unique: 1, Bytes: 2, InFlight: 2, Due: true}, g)
	k.done(b)
	for i := range 5 {
		k.add(string(rune('b'+i)), "x")
	}
	listing, err := k.Groups(k.Context(), k.method, 3)
	k.noError(err)
	k.length(3, listing.Groups)
	k.equal(1, listing.Calls)
}

func strange(k *kit) {
	names := strangeNames()
	for _, name := range names {
		k.addRecord(batch.Record{Option: name, Key: "k" + name, ID: "id of " + name, Payload: []byte(name)}, roomy())
		k.isTrue(k.addRecord(batch.Record{Option: name, Key: "k" + name, Payload: []byte(name)}, roomy()).Replaced)
	}
	for range names {
		b := k.lease(batch.Terms{})
		k.equal([]string{b.Option}, contents(b))
		k.equal(b.Option, b.Records[0].Option)
		k.equal("k"+b.Option, b.Records[0].Key)
		k.equal("id of "+b.Option, b.Records[0].ID)
		k.done(b)
	}
	k.length(0, k.lease(batch.Terms{}).Records)
	k.equal(batch.State{Next: -1}, k.state(0))
}

func methods(k *kit) {
	own := k.method
	for _, name := range strangeNames() {
		k.method = own + name
		k.add(name, name)
	}
	for _, name := range strangeNames() {
		k.method = own + name
		b := k.lease(batch.Terms{ID: "same"})
		k.equal([]string{name}, contents(b))
		k.length(0, k.lease(batch.Terms{}).Records)
		k.done(b)
	}
}

func payloads(k *kit) {
	random := make([]byte, 1<<20)
	_, _ = rand.Read(random) // never fails
	all := [][]byte{random, bytes.Repeat([]byte{0}, 1<<20), {}, []byte("\r\n"), []byte(`{"a":"ü"}`)}
	for _, p := range all {
		k.addRecord(batch.Record{Option: "a", Payload: bytes.Clone(p), Size: len(p)}, roomy())
	}
	b := k.lease(batch.Terms{})
	for i, p := range all {
		k.isTrue(bytes.Equal(p, b.Records[i].Payload), i)
		k.equal(len(p), b.Records[i].Size)
	}
	k.recent(b.Records[0].Added)
}

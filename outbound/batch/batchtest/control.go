package batchtest

import (
	"bytes"
	"crypto/rand"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/batch"
)

func (k *kit) pause(option string, paused bool) {
	k.Helper()
	require.NoError(k, k.Pause(k.Context(), k.method, option, paused, 1000))
}

func paused(k *kit) {
	k.pause("none", false)
	_, ok := k.group("none")
	require.False(k, ok)
	k.add("a", "1", "2", "3")
	b := k.lease(batch.Terms{MaxRecords: 1})
	k.pause("a", true)
	k.add("a", "4")
	k.add("b", "x")
	k.flush("a")
	require.Equal(k, "b", k.lease(batch.Terms{}).Option)
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: b.ID, Records: []int{0}}}
	k.settle(s)
	require.Empty(k, k.lease(batch.Terms{}).Records)
	require.False(k, k.state(0).Due)
	g, _ := k.group("a")
	require.True(k, g.Paused)
	require.True(k, g.Due)
	k.pause("a", false)
	require.Equal(k, []string{"1"}, contents(k.lease(batch.Terms{FlushAfter: long})))
	require.Equal(k, []string{"2", "3", "4"}, contents(k.lease(batch.Terms{FlushAfter: long})))

	k.pause("empty", true)
	g, ok = k.group("empty")
	require.True(k, ok, "a pause needs no record")
	require.True(k, g.Paused)
	k.add("empty", "1")
	require.Empty(k, k.lease(batch.Terms{}).Records)
	k.pause("empty", false)
	require.Equal(k, "empty", k.lease(batch.Terms{}).Option)
	require.ErrorIs(k, k.Pause(k.Context(), k.method, "one more", true, 1), batch.ErrGroups)
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
	k.addRecord(batch.Record{Option: "a", Key: "k", ReplyTo: to("1")}, roomy)
	k.addRecord(batch.Record{Option: "a", ReplyTo: to("2")}, roomy)
	k.add("b", "1")
	k.pause("a", true)
	n, err := k.Delete(k.Context(), k.method, "a")
	require.NoError(k, err)
	require.Equal(k, 4, n)
	replies := k.replies("p" + k.method)
	require.Equal(k, batch.Reply{Call: "1", Deleted: true}, replies["1"])
	require.Len(k, replies, 2)
	require.Equal(k, 2, k.state(long).Records, "the leased one, and that of b")
	k.addRecord(batch.Record{Option: "a", Key: "k"}, roomy)
	k.flush("a")
	require.Len(k, k.lease(batch.Terms{FlushAfter: long}).Records, 1, "the pause is over, the key is free")
	k.done(leased)
	n, err = k.Delete(k.Context(), k.method, "unknown")
	require.NoError(k, err)
	require.Zero(k, n)
	require.Equal(k, "b", k.lease(batch.Terms{}).Option)
}

func full(k *kit) {
	rules := batch.Rules{MaxPending: 3, MaxGroups: 2}
	add := func(option, key string) error {
		_, err := k.Add(k.Context(), k.method, &batch.Record{ID: id(), Option: option, Key: key}, rules)
		return err
	}
	require.NoError(k, add("a", "k"))
	require.NoError(k, add("b", ""))
	require.ErrorIs(k, add("c", ""), batch.ErrGroups)
	require.NoError(k, add("b", ""))
	require.ErrorIs(k, add("b", ""), batch.ErrFull)
	require.NoError(k, add("a", "k"), "it replaces a record")
	b := k.lease(batch.Terms{})
	require.ErrorIs(k, add("b", ""), batch.ErrFull, "a record in a batch is not done")
	k.done(b)
	require.NoError(k, add("c", ""), "a group that is empty does not count")
}

func replies(k *kit) {
	p, q := "p"+k.method, "q"+k.method
	rec := keyed("k", "1", true)
	rec.ReplyTo = []batch.Address{{Process: p, Call: "c1"}}
	k.addRecord(rec, roomy)
	rec.ReplyTo = []batch.Address{{Process: q, Call: "c2"}}
	k.addRecord(rec, roomy)
	k.addRecord(batch.Record{Option: "a", ReplyTo: []batch.Address{{Process: p, Call: "c3"}}}, roomy)
	b := k.lease(batch.Terms{})
	require.ElementsMatch(k, []batch.Address{{Process: p, Call: "c1"}, {Process: q, Call: "c2"}}, b.Records[0].ReplyTo)
	rec.ReplyTo = []batch.Address{{Process: q, Call: "c4"}} // after the lease
	k.addRecord(rec, roomy)
	require.Empty(k, k.replies(p))
	s := settlement(&b)
	s.Failed = []int{1}
	s.Results = []batch.Outcome{{Record: 0, Payload: []byte(`"yes"`)}, {Record: 1, Error: "no"}}
	k.settle(s)
	require.Equal(k, map[string]batch.Reply{
		"c1": {Call: "c1", Payload: []byte(`"yes"`)}, "c3": {Call: "c3", Error: "no"},
	}, k.replies(p))
	require.Equal(k, map[string]batch.Reply{
		"c2": {Call: "c2", Payload: []byte(`"yes"`)}, "c4": {Call: "c4", Payload: []byte(`"yes"`)},
	}, k.replies(q))
	require.Empty(k, k.replies(p), "a reply is received once")
	_, err := k.Retry(k.Context(), k.method, "a")
	require.NoError(k, err)
	require.Empty(k, k.lease(batch.Terms{}).Records[0].ReplyTo, "its Call has its reply")
}

func receiveWaits(k *kit) {
	p := "p" + k.method
	k.addRecord(batch.Record{Option: "a", ReplyTo: []batch.Address{{Process: p, Call: "c"}}}, roomy)
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
	require.Equal(k, []batch.Reply{{Call: "c", Payload: []byte("1")}}, <-received)
}

func described(k *kit) {
	k.add("a", "123", "4567", "8")
	k.addRecord(keyed("k", "x", false), roomy)
	b := k.lease(batch.Terms{MaxRecords: 2})
	g, ok := k.group("a")
	require.True(k, ok)
	now := time.Now()
	for _, at := range []time.Time{g.Oldest, g.LastCall} {
		require.WithinDuration(k, now, at, patient)
	}
	g.Oldest, g.LastCall = time.Time{}, time.Time{}
	require.Equal(k, batch.GroupInfo{Method: k.method, Option: "a", Pending: 2, Unique: 1, Bytes: 2, InFlight: 2, Due: true}, g)
	k.done(b)
	for i := range 5 {
		k.add(string(rune('b'+i)), "x")
	}
	listing, err := k.Groups(k.Context(), k.method, 3)
	require.NoError(k, err)
	require.Len(k, listing.Groups, 3)
	require.Equal(k, 1, listing.Calls)
}

func strange(k *kit) {
	names := strangeNames()
	for _, name := range names {
		k.addRecord(batch.Record{Option: name, Key: "k" + name, ID: "id of " + name, Payload: []byte(name)}, roomy)
		require.True(k, k.addRecord(batch.Record{Option: name, Key: "k" + name, Payload: []byte(name)}, roomy).Replaced)
	}
	for range names {
		b := k.lease(batch.Terms{})
		require.Equal(k, []string{b.Option}, contents(b))
		require.Equal(k, b.Option, b.Records[0].Option)
		require.Equal(k, "k"+b.Option, b.Records[0].Key)
		require.Equal(k, "id of "+b.Option, b.Records[0].ID)
		k.done(b)
	}
	require.Empty(k, k.lease(batch.Terms{}).Records)
	require.Equal(k, batch.State{Next: -1}, k.state(0))
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
		require.Equal(k, []string{name}, contents(b))
		require.Empty(k, k.lease(batch.Terms{}).Records)
		k.done(b)
	}
}

func payloads(k *kit) {
	random := make([]byte, 1<<20)
	_, _ = rand.Read(random) // never fails
	all := [][]byte{random, bytes.Repeat([]byte{0}, 1<<20), {}, []byte("\r\n"), []byte(`{"a":"ü"}`)}
	for _, p := range all {
		k.addRecord(batch.Record{Option: "a", Payload: bytes.Clone(p), Size: len(p)}, roomy)
	}
	b := k.lease(batch.Terms{})
	for i, p := range all {
		require.True(k, bytes.Equal(p, b.Records[i].Payload), i)
		require.Equal(k, len(p), b.Records[i].Size)
	}
	require.WithinDuration(k, time.Now(), b.Records[0].Added, patient)
}

package batchtest

import (
	"time"

	"github.com/stretchr/testify/require"

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
	require.Equal(k, 2, g.Retrying)
	require.Zero(k, g.InFlight)
	require.Equal(k, "vendor: limited", g.LastError)
	require.WithinDuration(k, time.Now(), g.LastErrorAt, patient)
	k.add("a", "3")
	require.Positive(k, k.state(long).Next)
	again := k.eventually(batch.Terms{FlushAfter: long})
	require.GreaterOrEqual(k, time.Since(start), brief-time.Millisecond)
	require.Equal(k, b.ID, again.ID)
	require.Equal(k, 2, again.Delivery)
	require.False(k, again.Expired)
	require.Equal(k, []string{"1", "2"}, contents(again))
	require.Equal(k, 1, again.Records[0].Attempts)
	require.Equal(k, b.Records[1].ID, again.Records[1].ID)
	s.Parts[0].After, s.Parts[0].Attempt, s.Delivery = 0, false, 2
	k.settle(s)
	again = k.lease(batch.Terms{FlushAfter: long})
	require.Equal(k, 3, again.Delivery)
	require.Equal(k, 1, again.Records[0].Attempts, "a batch that is given back uses no attempt")
}

func parts(k *kit) {
	k.add("a", numbers(0, 6)...)
	b := k.lease(batch.Terms{})
	s := settlement(&b)
	s.Failed = []int{5}
	s.Parts = []batch.Part{{ID: "left", Records: []int{0, 1}}, {ID: "right", Records: []int{3, 4}}, {ID: "later", Records: nil, After: long}}
	s.Parts = s.Parts[:2]
	k.settle(s)
	require.Equal(k, 4, k.state(long).Records, "2 is done, 5 has failed")
	left, right := k.lease(batch.Terms{}), k.lease(batch.Terms{})
	require.Equal(k, "left", left.ID)
	require.Equal(k, 1, left.Delivery)
	require.Equal(k, []string{"0", "1"}, contents(left))
	require.Equal(k, "right", right.ID)
	require.Equal(k, []string{"3", "4"}, contents(right))
	require.Zero(k, right.Records[0].Attempts)
	require.ErrorIs(k, k.Extend(k.Context(), k.method, b.ID, 1, long), batch.ErrLeaseLost)
	k.done(left)
	k.done(right)
	require.Empty(k, k.lease(batch.Terms{}).Records)
}

func expiry(k *kit) {
	k.add("a", "1", "2")
	first := k.lease(batch.Terms{Lease: brief})
	second := k.eventually(batch.Terms{Lease: brief})
	require.Equal(k, first.ID, second.ID)
	require.Equal(k, 2, second.Delivery)
	require.True(k, second.Expired)
	require.Equal(k, contents(first), contents(second))
	require.Zero(k, second.Records[0].Attempts, "an expired lease is no attempt")
	require.ErrorIs(k, k.Settle(k.Context(), k.method, settlement(&first)), batch.ErrLeaseLost)
	require.ErrorIs(k, k.Extend(k.Context(), k.method, first.ID, 1, long), batch.ErrLeaseLost)
	third := k.eventually(batch.Terms{})
	require.Equal(k, 3, third.Delivery)
	require.True(k, third.Expired)
	require.ErrorIs(k, k.Settle(k.Context(), k.method, settlement(&second)), batch.ErrLeaseLost)
	k.done(third)
	require.Zero(k, k.state(0).Records)
}

func lateSettle(k *kit) {
	k.add("a", "1")
	b := k.lease(batch.Terms{Lease: brief})
	for start := time.Now(); !k.state(long).Due && time.Since(start) < patient; {
		time.Sleep(time.Millisecond)
	}
	require.True(k, k.state(long).Due, "the lease has expired")
	require.NoError(k, k.Extend(k.Context(), k.method, b.ID, 1, long))
	require.False(k, k.state(long).Due, "the lease goes on")
	require.NoError(k, k.Extend(k.Context(), k.method, b.ID, 1, time.Millisecond))
	for start := time.Now(); !k.state(long).Due && time.Since(start) < patient; {
		time.Sleep(time.Millisecond)
	}
	k.done(b)
	require.Equal(k, batch.State{Next: -1}, k.state(long))
	require.Empty(k, k.lease(batch.Terms{}).Records)
}

func extend(k *kit) {
	k.add("a", "1")
	k.add("b", "2")
	b := k.lease(batch.Terms{Lease: 10 * time.Second})
	require.NoError(k, k.Extend(k.Context(), k.method, b.ID, b.Delivery, long))
	other := k.lease(batch.Terms{Lease: 2 * brief}) // the yardstick
	require.Equal(k, other.ID, k.eventually(batch.Terms{}).ID)
	require.Greater(k, k.state(long).Next, long/2)
	require.ErrorIs(k, k.Extend(k.Context(), k.method, "unknown", 1, long), batch.ErrLeaseLost)
	k.done(b)
	require.ErrorIs(k, k.Extend(k.Context(), k.method, b.ID, b.Delivery, long), batch.ErrLeaseLost)
}

func settleTwice(k *kit) {
	k.add("a", "1", "2")
	b := k.lease(batch.Terms{})
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: b.ID, Records: []int{0, 1}, Attempt: true}}
	k.settle(s)
	require.ErrorIs(k, k.Settle(k.Context(), k.method, s), batch.ErrLeaseLost)
	b = k.lease(batch.Terms{})
	require.Equal(k, 1, b.Records[0].Attempts)
	k.done(b)
	require.ErrorIs(k, k.Settle(k.Context(), k.method, settlement(&b)), batch.ErrLeaseLost)
}

func failed(k *kit) {
	for _, c := range numbers(0, 6) {
		k.addRecord(keyed("k"+c, c, true), roomy)
	}
	b := k.lease(batch.Terms{})
	s := settlement(&b)
	s.Failed, s.MaxFailed, s.Error = indexes(6), 4, "poison"
	k.settle(s)
	g, ok := k.group("a")
	require.True(k, ok)
	require.Equal(k, 4, g.Failed)
	require.EqualValues(k, 2, g.Dropped)
	require.Zero(k, g.Pending+g.InFlight+g.Retrying+g.Unique)
	require.Equal(k, batch.State{Next: -1}, k.state(0))
	n, err := k.Retry(k.Context(), k.method, "unknown")
	require.NoError(k, err)
	require.Zero(k, n)
	k.add("a", "before")
	n, err = k.Retry(k.Context(), k.method, "a")
	require.NoError(k, err)
	require.Equal(k, 4, n)
	require.False(k, k.addRecord(keyed("k3", "x", true), roomy).Replaced, "they are not unique any longer")
	b = k.lease(batch.Terms{FlushAfter: long, MaxRecords: 5})
	require.Equal(k, []string{"before", "2", "3", "4", "5"}, contents(b))
	require.Zero(k, b.Records[4].Attempts)
	require.Empty(k, k.lease(batch.Terms{FlushAfter: long}).Records)
}

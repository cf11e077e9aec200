package batchtest

import (
	"strconv"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/batch"
)

func keyed(key, content string, untilDone bool) batch.Record {
	return batch.Record{Option: "a", Key: key, UntilDone: untilDone, Payload: []byte(content), Size: len(content)}
}

func uniqueUntilFlushed(k *kit) {
	first := k.addRecord(keyed("k", "old", false), roomy)
	require.False(k, first.Replaced)
	k.add("a", "between")
	for _, content := range []string{"newer", "newest"} {
		again := k.addRecord(keyed("k", content, false), roomy)
		require.True(k, again.Replaced)
		require.Equal(k, first.ID, again.ID)
	}
	other := keyed("k", "of b", false)
	other.Option = "b"
	require.False(k, k.addRecord(other, roomy).Replaced, "keys are those of one group")
	g, _ := k.group("a")
	require.Equal(k, 2, g.Pending)
	require.Equal(k, 1, g.Unique)
	require.EqualValues(k, len("newest")+len("between"), g.Bytes)
	b := k.lease(batch.Terms{})
	require.Equal(k, []string{"newest", "between"}, contents(b), "the last content, in the first place")
	require.Equal(k, first.ID, b.Records[0].ID)
	require.False(k, k.addRecord(keyed("k", "later", false), roomy).Replaced, "the key is free again")
	k.done(b)
	require.True(k, k.addRecord(keyed("k", "last", false), roomy).Replaced, "the key is that of the later record")
}

func uniqueUntilDone(k *kit) {
	first := k.addRecord(keyed("k", "old", true), roomy)
	k.addRecord(keyed("k", "new", true), roomy)
	b := k.lease(batch.Terms{})
	require.Equal(k, []string{"new"}, contents(b))
	again := k.addRecord(keyed("k", "too late", true), roomy)
	require.True(k, again.Replaced)
	require.Equal(k, first.ID, again.ID)
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: "again", Records: []int{0}}}
	k.settle(s)
	b = k.lease(batch.Terms{})
	require.Equal(k, []string{"new"}, contents(b), "a batch keeps its content")
	k.done(b)
	require.False(k, k.addRecord(keyed("k", "next", true), roomy).Replaced, "it is done")
	b = k.lease(batch.Terms{})
	s = settlement(&b)
	s.Failed = []int{0}
	k.settle(s)
	require.False(k, k.addRecord(keyed("k", "after", true), roomy).Replaced, "it has failed")
	_, err := k.Delete(k.Context(), k.method, "a")
	require.NoError(k, err)
	require.False(k, k.addRecord(keyed("k", "fresh", true), roomy).Replaced, "it was deleted")
}

func uniqueConcurrent(k *kit) {
	var adding sync.WaitGroup
	for range 4 {
		adding.Go(func() {
			for i := range 250 {
				k.addRecord(keyed(strconv.Itoa(i%10), "x", false), roomy)
			}
		})
	}
	adding.Wait()
	require.Len(k, k.lease(batch.Terms{}).Records, 10)
	require.Empty(k, k.lease(batch.Terms{}).Records)
}

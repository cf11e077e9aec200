package batchtest

import (
	"strconv"
	"sync"

	"github.com/gresil/gresil/outbound/batch"
)

func keyed(key, content string, untilDone bool) batch.Record {
	return batch.Record{Option: "a", Key: key, UntilDone: untilDone, Payload: []byte(content), Size: len(content)}
}

func uniqueUntilFlushed(k *kit) {
	first := k.addRecord(keyed("k", "old", false), roomy())
	k.isFalse(first.Replaced)
	k.add("a", "between")
	for _, content := range []string{"newer", "newest"} {
		again := k.addRecord(keyed("k", content, false), roomy())
		k.isTrue(again.Replaced)
		k.equal(first.ID, again.ID)
	}
	other := keyed("k", "of b", false)
	other.Option = "b"
	k.isFalse(k.addRecord(other, roomy()).Replaced, "keys are those of one group")
	g, _ := k.group("a")
	k.equal(2, g.Pending)
	k.equal(1, g.Unique)
	k.equal(int64(len("newest")+len("between")), g.Bytes)
	b := k.lease(batch.Terms{})
	k.equal([]string{"newest", "between"}, contents(b), "the last content, in the first place")
	k.equal(first.ID, b.Records[0].ID)
	k.isFalse(k.addRecord(keyed("k", "later", false), roomy()).Replaced, "the key is free again")
	k.done(b)
	k.isTrue(k.addRecord(keyed("k", "last", false), roomy()).Replaced, "the key is that of the later record")
}

func uniqueUntilDone(k *kit) {
	first := k.addRecord(keyed("k", "old", true), roomy())
	k.addRecord(keyed("k", "new", true), roomy())
	b := k.lease(batch.Terms{})
	k.equal([]string{"new"}, contents(b))
	again := k.addRecord(keyed("k", "too late", true), roomy())
	k.isTrue(again.Replaced)
	k.equal(first.ID, again.ID)
	s := settlement(&b)
	s.Parts = []batch.Part{{ID: "again", Records: []int{0}}}
	k.settle(s)
	b = k.lease(batch.Terms{})
	k.equal([]string{"new"}, contents(b), "a batch keeps its content")
	k.done(b)
	k.isFalse(k.addRecord(keyed("k", "next", true), roomy()).Replaced, "it is done")
	b = k.lease(batch.Terms{})
	s = settlement(&b)
	s.Failed = []int{0}
	k.settle(s)
	k.isFalse(k.addRecord(keyed("k", "after", true), roomy()).Replaced, "it has failed")
	_, err := k.Delete(k.Context(), k.method, "a")
	k.noError(err)
	k.isFalse(k.addRecord(keyed("k", "fresh", true), roomy()).Replaced, "it was deleted")
}

func uniqueConcurrent(k *kit) {
	var adding sync.WaitGroup
	for range 4 {
		adding.Go(func() {
			for i := range 250 {
				k.addRecord(keyed(strconv.Itoa(i%10), "x", false), roomy())
			}
		})
	}
	adding.Wait()
	k.length(10, k.lease(batch.Terms{}).Records)
	k.length(0, k.lease(batch.Terms{}).Records)
}

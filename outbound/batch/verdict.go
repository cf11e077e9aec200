package batch

import (
	"time"

	"github.com/gresil/gresil/core"
)

// A verdict decides on each record of a batch after its call.
type verdict[T, R any] struct {
	d          *delivery[T, R]
	settlement Settlement

	retry  []int
	wait   time.Duration // until the retry
	failed []string      // IDs
	err    error         // of one of them
	done   int
}

// decode returns the records and their indexes in the batch. A record that cannot be decoded has failed.
func (v *verdict[T, R]) decode() (records []T, index []int) {
	for i := range v.d.batch.Records {
		record, err := v.d.b.decode(&v.d.batch.Records[i])
		if err != nil {
			v.fail(i, err)
			continue
		}
		records, index = append(records, record), append(index, i)
	}
	return records, index
}

// judge decides on the records with these indexes.
func (v *verdict[T, R]) judge(index []int, results []Result[R], err error) {
	switch {
	case err == nil:
		for i, result := range results {
			v.one(index[i], result)
		}
	case !permanent(err):
		v.settlement.Error = textOf(err)
		for _, i := range index {
			v.again(i, err)
		}
	case len(index) == 1:
		v.fail(index[0], err)
	default:
		v.settlement.Error = textOf(err)
		v.halve(index)
	}
	if len(v.retry) == 0 {
		return
	}
	part := Part{ID: v.d.batch.ID, Records: v.retry, After: v.wait, Attempt: true}
	if len(v.retry) < len(v.d.batch.Records) {
		part.ID = v.d.b.newID() // another call
	}
	v.settlement.Parts = append(v.settlement.Parts, part)
}

// one decides on a record that has a result.
func (v *verdict[T, R]) one(i int, result Result[R]) {
	switch {
	case result.Err == nil:
		v.done++
		v.result(i, result)
	case permanent(result.Err):
		v.fail(i, result.Err)
	default:
		v.again(i, result.Err)
	}
}

// again sends a record another time, unless it has used up its attempts.
func (v *verdict[T, R]) again(i int, err error) {
	n := v.d.batch.Records[i].Attempts + 1
	if n >= v.d.set.MaxAttempts {
		v.fail(i, err)
		return
	}
	v.settlement.Error = textOf(err)
	v.retry = append(v.retry, i)
	least, _ := core.RetryAfter(err)
	v.wait = max(v.wait, least, v.d.set.Backoff.Delay(n, 0))
}

// fail makes a record a failed one.
func (v *verdict[T, R]) fail(i int, err error) {
	v.settlement.Error = textOf(err)
	v.settlement.Failed = append(v.settlement.Failed, i)
	v.failed, v.err = append(v.failed, v.d.batch.Records[i].ID), err
	v.result(i, Result[R]{Err: err})
}

// halve makes two batches of one: a record that lets each call fail is found in a few steps.
func (v *verdict[T, R]) halve(index []int) {
	v.d.b.splits.Add(1)
	middle := len(index) / 2
	for _, half := range [][]int{index[:middle], index[middle:]} {
		v.settlement.Parts = append(v.settlement.Parts, Part{ID: v.d.b.newID(), Records: half})
	}
}

// result keeps the result of a record for its Calls.
func (v *verdict[T, R]) result(i int, result Result[R]) {
	r := &v.d.batch.Records[i]
	if len(r.ReplyTo) > 0 || r.Key != "" && r.UntilDone { // a Call may have joined since
		v.settlement.Results = append(v.settlement.Results, v.d.b.outcome(i, result))
	}
}

// report counts the records, and reports those that have failed.
func (v *verdict[T, R]) report() {
	b := v.d.b
	b.sent.Add(uint64(v.done))
	b.retried.Add(uint64(len(v.retry)))
	b.failed.Add(uint64(len(v.failed)))
	if len(v.failed) > 0 {
		b.call(v.d.ctx, b.life.Hooks().Failed, Info{Option: v.d.batch.Option, Key: v.d.batch.ID, Records: len(v.failed), IDs: v.failed, Err: v.err})
	}
}

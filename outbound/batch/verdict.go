package batch

import (
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/jitter"
)

// A verdict decides on each record of a batch after its call.
type verdict[T, R any] struct {
	d          *delivery[T, R]
	settlement Settlement

	records []T
	index   []int // of these in the batch
	retry   []int
	wait    time.Duration // until the retry
	failed  []string      // IDs
	err     error         // of one of them
	done    int
}

// begin begins the verdict on a batch.
func (d *delivery[T, R]) begin() *verdict[T, R] {
	return &verdict[T, R]{d: d, settlement: Settlement{ID: d.batch.ID, Delivery: d.batch.Delivery, MaxFailed: d.set.MaxFailed}}
}

// open begins the verdict on a batch before its call: a record that cannot be decoded has failed.
func (d *delivery[T, R]) open() *verdict[T, R] {
	v := d.begin()
	for i := range d.batch.Records {
		record, err := d.b.decode(&d.batch.Records[i])
		if err != nil {
			v.fail(i, err)
			continue
		}
		v.records, v.index = append(v.records, record), append(v.index, i)
	}
	return v
}

// judge decides on the records that were sent.
func (v *verdict[T, R]) judge(results []Result[R], err error) {
	index := v.index
	switch {
	case err == nil:
		for i, result := range results {
			v.one(index[i], result)
		}
	case !blame.Permanent(err):
		v.settlement.Error = textOf(err)
		for _, i := range index {
			v.again(i, err)
		}
	case len(index) == 1:
		v.fail(index[0], err)
	default:
		v.settlement.Error = textOf(err)
		v.halve(index, 0)
	}
	if len(v.retry) == 0 {
		return
	}
	part := Part{ID: v.d.batch.ID, Records: v.retry, After: v.wait, Attempt: true}
	if err == nil || len(v.retry) < len(v.d.batch.Records) {
		part.ID = v.d.b.newID() // another call: the vendor has answered that one, or it has other records
	}
	v.settlement.Parts = append(v.settlement.Parts, part)
}

// one decides on a record that has a result.
func (v *verdict[T, R]) one(i int, result Result[R]) {
	switch {
	case result.Err == nil:
		v.done++
		v.result(i, result)
	case blame.Permanent(result.Err):
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
	told, _ := core.RetryAfter(err)
	v.wait = max(v.wait, v.delay(n, told))
}

// delay returns the wait before attempt n, at least told.
func (v *verdict[T, R]) delay(n int, told time.Duration) time.Duration {
	strategy, wait, ok := v.d.set.Backoff, time.Duration(0), false
	func() {
		defer v.d.b.life.Panics.Recover()
		wait, ok = strategy.Next(n, 0), true
	}()
	if !ok {
		strategy = defaultBackoff()
		wait = strategy.Next(n, 0)
	}
	return jitter.Above(told, strategy, n, 0, wait)
}

// fail makes a record a failed one.
func (v *verdict[T, R]) fail(i int, err error) {
	v.settlement.Error = textOf(err)
	v.settlement.Failed = append(v.settlement.Failed, i)
	v.failed, v.err = append(v.failed, v.d.batch.Records[i].ID), err
	v.result(i, Result[R]{Err: err})
}

// halve makes two batches of one: a record that lets each call fail is found in a few steps.
func (v *verdict[T, R]) halve(index []int, losses int) {
	v.d.b.splits.Add(1)
	middle := len(index) / 2
	for _, half := range [][]int{index[:middle], index[middle:]} {
		v.settlement.Parts = append(v.settlement.Parts, Part{ID: v.d.b.newID(), Records: half, Losses: losses})
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

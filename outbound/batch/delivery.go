package batch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/gate"
)

const (
	suspicious = 2               // losses, after which a call is halved
	patience   = time.Minute     // for which a call waits at its gate, in the order of arrival
	shortHold  = 2 * time.Second // of its keys, for which a call waits at its gate: calls with other keys need its place
	lead       = time.Second     // before the vendor permits a call, it is tried
	lastTries  = 10              // to note the end of a call when the process stops
)

type keyOfCall struct{}

// IdempotencyKey returns the key of the call that a Send with this context makes, or "". It is the same whenever this call
// is made again, by any process, and no other call has it.
func IdempotencyKey(ctx context.Context) string {
	key, _ := ctx.Value(keyOfCall{}).(string)
	return key
}

// A delivery is one call of a batch, and what becomes of its records.
type delivery[T, R any] struct {
	*Config[T, R]

	b      *Batcher[T, R]
	batch  groups.Batch
	losses int // processes that ended with this batch

	records []T
	call    gate.Call
	called  bool // Send was
	err     error
	took    time.Duration

	// The outcome.
	parts          []groups.Part
	results        []groups.Result
	text           string // of an error
	limited, split bool
}

// deliver makes the call, unless its processes have ended too often, and decides.
func (d *delivery[T, R]) deliver(ctx, stopping context.Context, cancel func()) {
	all := len(d.batch.Records)
	defer func() {
		if v := recover(); v != nil { // of a function of the Config, or of a method of a record
			d.parts, d.results = nil, nil
			d.judgeCall(groups.Panicked("batch: Send panicked", v), false)
		}
	}()
	if lost := d.losses + d.batch.Losses; d.losses > 0 && lost >= min(suspicious, d.MaxDeliveries) {
		err := fmt.Errorf("batch: %d processes ended, or lost the engine, during the call", lost)
		if all > 1 {
			d.halve(err, suspicious)
			return
		}
		if lost >= d.MaxDeliveries {
			d.fail(err, 0)
			return
		}
	}
	if !d.decode() {
		return
	}
	d.call = d.GateCall(d.batch.Group, d.records)
	results, err := d.make(context.WithValue(ctx, keyOfCall{}, d.batch.ID), stopping, cancel)
	if d.called && d.err == nil {
		d.judge(results)
		return
	}
	d.judgeCall(err, stopping.Err() != nil || ctx.Err() != nil)
}

// decode decodes the records. One that cannot be decoded has failed, and the others are another batch.
func (d *delivery[T, R]) decode() bool {
	var good []int
	for i, r := range d.batch.Records {
		var v T
		if err := json.Unmarshal(r.Payload, &v); err != nil {
			d.fail(fmt.Errorf("batch: the record cannot be decoded: %w", err), i)
			continue
		}
		d.records = append(d.records, v)
		good = append(good, i)
	}
	if len(d.results) > 0 && len(good) > 0 {
		d.again(rand.Text(), 0, d.batch.Attempts, good...)
	}
	return len(d.results) == 0
}

// make calls Send once, when the gate permits it. If stopping ends before that, cancel ends ctx.
func (d *delivery[T, R]) make(ctx, stopping context.Context, cancel func()) (results []Result[R], err error) {
	if d.Gate == nil {
		return d.send(ctx)
	}
	wait := &waiting{ctx, time.Now().Add(patience)}
	if d.losses+d.batch.Losses > 0 || d.held() { // what has ended a process runs alone
		wait.until = time.Now().Add(shortHold)
	}
	stop := context.AfterFunc(stopping, cancel)
	defer stop()
	err = d.Gate.Do(wait, d.call, func(ctx context.Context) (err error) { //nolint:contextcheck // it is ctx with a deadline
		stop()
		wait.until = time.Time{} // the call has its own time
		results, err = d.send(ctx)
		wait.until = time.Unix(0, 0) // a call that is refused goes back to its group
		return err
	})
	return results, err
}

// held reports whether there is a hold on a key of the call.
func (d *delivery[T, R]) held() bool {
	return len(d.call.Keys) > 0 && slices.ContainsFunc(d.Gate.Holds(), func(h gate.Hold) bool {
		key, ok := d.call.Keys[h.Limit]
		return ok && key == h.Key
	})
}

// waiting is the context of a call at a gate. Its deadline limits only the wait: the context does not end then.
type waiting struct {
	context.Context //nolint:containedctx // it is a context

	until time.Time
}

func (w *waiting) Deadline() (time.Time, bool) { return w.until, !w.until.IsZero() }

// send calls Send.
func (d *delivery[T, R]) send(ctx context.Context) (results []Result[R], err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.Timeout, &timeout.Error{Name: d.b.Name(), Limit: d.Timeout})
	defer cancel()
	began := time.Now()
	d.called = true
	d.b.calls.Add(1)
	defer func() {
		if v := recover(); v != nil {
			err = groups.Panicked("batch: Send panicked", v)
		}
		d.err, d.took = err, time.Since(began)
	}()
	results, err = d.Send(ctx, d.batch.Group, d.records)
	if err == nil && len(results) != len(d.records) {
		err = fmt.Errorf("batch: Send returned %d results for %d records", len(results), len(d.records))
	}
	return results, err
}

// judge decides about each record of a call that was answered.
func (d *delivery[T, R]) judge(results []Result[R]) {
	var retried, limited []int
	var wait time.Duration
	for i, r := range results {
		pause, refused := d.refusal(r.Err, true)
		switch {
		case r.Err == nil:
			value, _ := json.Marshal(r.Value) // a value without JSON, as NaN, is not kept
			d.results = append(d.results, groups.Result{ID: d.batch.Records[i].ID, Value: value})
		case blame.Permanent(r.Err):
			d.fail(r.Err, i)
		case refused:
			limited, wait = append(limited, i), max(wait, pause)
		case d.batch.Attempts+1 >= d.MaxAttempts:
			d.fail(r.Err, i)
		default:
			d.text = kept{r.Err}.Error()
			retried = append(retried, i)
		}
	}
	if len(limited) > 0 {
		d.limited = true
		d.again(rand.Text(), wait, d.batch.Attempts, limited...)
	}
	if len(retried) > 0 {
		d.again(rand.Text(), d.Backoff.Next(d.batch.Attempts+1, 0), d.batch.Attempts+1, retried...)
	}
}

// judgeCall decides about a call that ended with err: that of Send, or what the gate has made of it. stopped means that the process
// stops, or has lost the job.
func (d *delivery[T, R]) judgeCall(err error, stopped bool) {
	wait, refused := d.refusal(err, d.Gate == nil)
	n := d.batch.Attempts + 1
	switch {
	case d.called && blame.Permanent(d.err):
		if len(d.records) > 1 {
			d.halve(d.err, 0)
		} else {
			d.fail(d.err, 0)
		}
	case refused:
		d.limited, d.text = true, kept{err}.Error()
		d.again(d.batch.ID, wait, d.batch.Attempts)
	case stopped:
		d.again(d.batch.ID, 0, d.batch.Attempts)
	case n >= d.MaxAttempts:
		for i := range d.batch.Records {
			d.fail(err, i)
		}
	default:
		d.text = kept{err}.Error()
		d.again(d.batch.ID, d.Backoff.Next(n, 0), n)
	}
}

// refusal reports whether an error is a refusal by a limit, or of a call that was not made, and for how long to wait. The gate has
// classified the error of a call, and not that of a record.
func (d *delivery[T, R]) refusal(err error, classify bool) (wait time.Duration, refused bool) {
	wait, _ = core.RetryAfter(err)
	limit, limited := errors.AsType[*gate.LimitedError](err)
	signal := gate.Classify(nil, err)
	switch {
	case limited:
		if wait = d.b.spacing.Wait(wait) - lead; wait <= 0 { // it is near, or another call is before
			wait = lead
		}
		if _, keyed := d.call.Keys[limit.Limit]; !keyed && wait > lead {
			d.b.held.Store(time.Now().Add(min(wait, groups.LongestHold-lead)).UnixNano()) // no other call would pass
		}
		return wait, true
	case errors.Is(err, core.ErrRejected):
	case signal.Limited && classify:
		wait = signal.Pause
	default:
		return 0, false
	}
	if wait <= 0 { // it is not said
		wait = max(lead, d.Backoff.Next(1, 0))
	}
	return wait, true
}

// again sends records again, or without indexes all of them. The losses of a call that was not made count on.
func (d *delivery[T, R]) again(id string, after time.Duration, attempts int, records ...int) {
	if len(records) == 0 {
		records = upTo(0, len(d.batch.Records))
	}
	losses := d.losses + d.batch.Losses
	if d.called {
		losses = 0
	}
	d.parts = append(d.parts, groups.Part{ID: id, Records: records, After: max(0, after), Attempts: attempts, Losses: losses})
}

// halve sends each half of the records.
func (d *delivery[T, R]) halve(err error, losses int) {
	d.split, d.text = true, kept{err}.Error()
	n := len(d.batch.Records)
	for _, half := range [][]int{upTo(0, (n+1)/2), upTo((n+1)/2, n)} {
		d.parts = append(d.parts, groups.Part{ID: rand.Text(), Records: half, Attempts: d.batch.Attempts, Losses: losses})
	}
}

func upTo(from, to int) (all []int) {
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// fail ends a record with an error.
func (d *delivery[T, R]) fail(err error, i int) {
	d.text = kept{err}.Error()
	d.results = append(d.results, groups.Result{ID: d.batch.Records[i].ID, Err: kept{err}})
}

// settle notes the outcome, and reports whether that succeeded, or was done before. It repeats this until ctx ends, as the job can be
// with another process then, and some times when the process stops.
func (d *delivery[T, R]) settle(ctx, stopping context.Context) bool {
	free := context.WithoutCancel(ctx)
	for last := 0; ; {
		short, cancel := context.WithTimeout(free, opTimeout)
		err := d.b.store.Replace(short, d.b.line, d.batch, d.parts, d.results, d.text)
		cancel()
		switch {
		case err == nil:
			d.b.engineIs(ctx, nil)
			d.report(ctx)
			return true
		case errors.Is(err, groups.ErrReplaced):
			return true
		}
		d.b.engineIs(free, err)
		if stopping.Err() != nil {
			last++
		}
		if ctx.Err() != nil || last >= lastTries {
			return false
		}
		timer := time.NewTimer(hesitation)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// report counts the outcome, reports it, and passes results to the Calls of this process.
func (d *delivery[T, R]) report(ctx context.Context) {
	b, failed := d.b, 0
	var last error
	for _, r := range d.results {
		if r.Err != nil {
			failed++
			last = r.Err
		}
	}
	b.failed.Add(uint64(failed))
	b.sent.Add(uint64(len(d.results) - failed))
	count := func(is bool, n interface{ Add(uint64) uint64 }) {
		if is {
			n.Add(1)
		}
	}
	count(d.limited, &b.limited)
	count(d.split, &b.split)
	b.deliver(d.results)
	if !b.life.Listening() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	attrs := func(n int, err error) []slog.Attr {
		all := []slog.Attr{slog.String("batch", d.batch.ID), slog.Int("records", n), slog.Any("err", err)}
		if p, ok := errors.AsType[*groups.PanicError](err); ok {
			all = append(all, slog.String("stack", p.Stack))
		}
		return all
	}
	if d.called && b.life.Calls() {
		e := registry.Event{Text: "call ended", Call: true, Key: d.batch.Group, Attrs: attrs(len(d.batch.Records), d.err)}
		e.Attrs = append(e.Attrs, slog.Duration("took", d.took))
		b.life.Emit(ctx, e)
	}
	if failed > 0 {
		b.life.Emit(ctx, registry.Event{Text: "records failed", Warn: true, Key: d.batch.Group, Attrs: attrs(failed, last)})
	}
}

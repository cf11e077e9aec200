package batch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/jitter"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/gate"
)

const (
	suspicious = 2               // the number of losses after which a call is halved
	patience   = time.Minute     // the longest wait of a call at its gate, in the order of arrival
	shortHold  = 2 * time.Second // the same while its keys are held, since calls with other keys need its place
	lead       = time.Second     // how long before the vendor permits a call it is tried
	lastTries  = 10              // tries to note the end of a call when the process stops
	panicked   = "batch: Send panicked"
)

type keyOfCall struct{}

// IdempotencyKey returns the key of the call for which Send was given this context, or "". It is the same whenever this
// call is made again, by any process, and no other call has it.
func IdempotencyKey(ctx context.Context) string {
	key, _ := ctx.Value(keyOfCall{}).(string)
	return key
}

// A delivery is one call of a batch, and its outcome for the records.
type delivery[T, R any] struct {
	groups.Attempt
	*Config[T, R]

	b       *Batcher[T, R]
	batch   groups.Batch
	died    bool // a process ended with this batch since it was taken
	losses  int  // processes that ended with it, or with one that it was a part of
	all     []int
	records []T
	call    gate.Call

	parts   []groups.Part
	results []groups.Result
	last    error                // of the group
	limited uint64               // 1: a limit has refused the call, or some of its records
	pause   func() time.Duration // after which what has failed is sent again
}

// deliver makes the call, unless too many processes have ended during it, and decides what happens to the records.
func (d *delivery[T, R]) deliver(ctx, stopping, working context.Context) {
	defer func() {
		if v := recover(); v != nil { // of a function of the Config, or of a method of a record
			d.parts, d.results = nil, nil
			d.judge(d.batch.ID, groups.Panicked(panicked, v), false, d.all)
		}
	}()
	d.pause = sync.OnceValue(func() time.Duration { return d.Backoff.Next(d.batch.Attempts+1, 0) })
	bytes := 0
	for i, r := range d.batch.Records {
		d.all = append(d.all, i)
		bytes += len(r.Payload)
	}
	many := len(d.all) > 1
	switch {
	case d.died && d.losses >= min(suspicious, d.MaxDeliveries) && (many || d.losses >= d.MaxDeliveries):
		err := fmt.Errorf("batch: %d processes ended, or lost the engine, during the call", d.losses)
		d.losses = suspicious
		d.halve(err)
		return
	case len(d.all) > d.MaxRecords, many && d.MaxBytes > 0 && bytes > d.MaxBytes: // they were lowered
		d.halve(nil)
		return
	}
	if !d.decode() {
		return
	}
	var results []Result[R]
	d.Attempt = groups.Attempt{Name: d.b.Name(), Panic: panicked, Timeout: d.Config.Timeout, Patience: patience}
	if d.Gate != nil {
		d.call = d.GateCall(d.batch.Group, d.records)
		d.Pass = func(ctx context.Context, f func(context.Context) error) error { return d.Gate.Do(ctx, d.call, f) }
		if d.losses > 0 || d.held() { // a call that has ended a process runs alone
			d.Patience = shortHold
		}
	}
	ctx = context.WithValue(gate.Background(ctx), keyOfCall{}, d.batch.ID)
	err := d.Make(ctx, stopping, working, func(ctx context.Context) (err error) {
		d.b.calls.Add(1)
		results, err = d.Send(ctx, d.batch.Group, d.records)
		if err == nil && len(results) != len(d.records) {
			err = fmt.Errorf("batch: Send returned %d results for %d records", len(results), len(d.records))
		}
		return err
	})
	if !d.Called || d.Err != nil {
		d.judge(d.batch.ID, err, stopping.Err() != nil || ctx.Err() != nil, d.all)
		return
	}
	for i, r := range results {
		if r.Err != nil {
			d.judge("", r.Err, false, []int{i})
			continue
		}
		value, _ := json.Marshal(r.Value) // a value that JSON cannot encode, such as NaN, is not kept
		d.results = append(d.results, groups.Result{ID: d.batch.Records[i].ID, Value: value})
	}
}

// decode decodes the records, and reports whether all could be decoded. Otherwise those that could not have failed, and
// the others become another batch.
func (d *delivery[T, R]) decode() bool {
	var good []int
	for i, r := range d.batch.Records {
		var v T
		if err := json.Unmarshal(r.Payload, &v); err != nil {
			d.fail(fmt.Errorf("batch: the record cannot be decoded: %w", err), []int{i})
			continue
		}
		d.records, good = append(d.records, v), append(good, i)
	}
	if len(d.results) > 0 && len(good) > 0 {
		d.again("", 0, d.batch.Attempts, good)
	}
	return len(d.results) == 0
}

// held reports whether there is a hold on a key of the call.
func (d *delivery[T, R]) held() bool {
	return len(d.call.Keys) > 0 && slices.ContainsFunc(d.Gate.Holds(), func(h gate.Hold) bool {
		key, ok := d.call.Keys[h.Limit]
		return ok && key == h.Key
	})
}

// judge decides about records that have ended with err. It is the error of Send or of the gate, or, without an id, that of a result. With
// an id, all records are sent again under it. stopped means that the process stops, or has lost the job.
func (d *delivery[T, R]) judge(id string, err error, stopped bool, records []int) {
	wait, refused := d.refusal(err, id == "" || d.Gate == nil)
	permanent := d.Called && blame.Permanent(cmp.Or(d.Err, err))
	n := d.batch.Attempts + 1
	switch {
	case blame.Has[*blame.FinalError](err): // halves would not fare better
		d.fail(err, records)
	case permanent && id != "":
		d.halve(cmp.Or(d.Err, err))
	case permanent:
		d.fail(err, records)
	case refused:
		d.limited, d.last = 1, err
		d.again(id, wait, n-1, records)
	case stopped:
		d.again(id, 0, n-1, records)
	case n >= d.MaxAttempts:
		d.fail(err, records)
	default:
		d.last = err
		d.again(id, d.pause(), n, records)
	}
}

// refusal reports whether err is a refusal by a limit, or the error of a call that was not made, and how long to wait. With classify,
// gate.Classify decides about other errors; it is false if the gate has classified the error already.
func (d *delivery[T, R]) refusal(err error, classify bool) (wait time.Duration, refused bool) {
	wait, _ = core.RetryAfter(err)
	limit, limited := errors.AsType[*gate.LimitedError](err)
	signal := gate.Classify(nil, err)
	switch {
	case limited:
		if wait = d.b.spacing.Wait(wait) - lead; wait <= 0 { // it is due soon, or waits for another call
			wait = lead
		}
		if d.Gate != nil && limit.Gate == d.Gate.Name() && !d.keyed(limit.Limit) && wait > lead {
			d.b.held.Store(time.Now().Add(min(wait, groups.LongestHold-lead)).UnixNano()) // no other call would pass before
		}
		return wait, true
	case errors.Is(err, core.ErrRejected):
	case signal.Limited && classify:
		wait = signal.Pause
	default:
		return 0, false
	}
	if wait <= 0 { // no time is given
		return max(lead, d.Backoff.Next(1, 0)), true
	}
	return jitter.Told(wait), true
}

// keyed reports whether calls with another key may pass a limit. The key is that of GateCall, or once Send has run, that of its request.
func (d *delivery[T, R]) keyed(limit string) bool {
	_, keyed := d.call.Keys[limit]
	all := d.Gate.Config().Limits
	byRequest := len(all) == 0 && limit == "host" || slices.ContainsFunc(all, func(l gate.Limit) bool { return l.Name == limit && l.Key != nil })
	return keyed || d.Called && byRequest
}

// again has records sent again, under an id, or without one together with others that have failed as often. If the call was not made, its
// losses still count.
func (d *delivery[T, R]) again(id string, after time.Duration, attempts int, records []int) {
	i := slices.IndexFunc(d.parts, func(p groups.Part) bool { return id == "" && p.Attempts == attempts })
	if i < 0 {
		part := groups.Part{ID: cmp.Or(id, rand.Text()), Attempts: attempts, Losses: d.losses}
		if d.Called {
			part.Losses = 0
		}
		i, d.parts = len(d.parts), append(d.parts, part)
	}
	p := &d.parts[i]
	p.Records, p.After = append(p.Records, records...), max(p.After, after)
}

// halve has each half of the records sent by itself. A single record has failed.
func (d *delivery[T, R]) halve(err error) {
	n := len(d.all)
	if n == 1 {
		d.fail(err, d.all)
		return
	}
	d.b.split.Add(1)
	d.last = err
	for _, half := range [][]int{d.all[:(n+1)/2], d.all[(n+1)/2:]} {
		d.again(rand.Text(), 0, d.batch.Attempts, half)
	}
}

// fail ends records with an error.
func (d *delivery[T, R]) fail(err error, records []int) {
	d.last = err
	for _, i := range records {
		d.results = append(d.results, groups.Result{ID: d.batch.Records[i].ID, Err: err})
	}
}

// settle notes the outcome in the store, and reports whether it is noted. It tries until ctx ends, and a limited number of times when the
// process stops. After the end of ctx another process can have the job: then only a batch of which nothing is to be sent again is noted.
func (d *delivery[T, R]) settle(ctx, stopping context.Context) bool {
	free := context.WithoutCancel(ctx)
	for tries := 1; ctx.Err() == nil || len(d.results) > 0 && len(d.parts) == 0; tries++ {
		err := d.b.store.Replace(free, d.b.line, d.batch, d.parts, d.results, d.last)
		if errors.Is(err, groups.ErrReplaced) {
			return true
		}
		d.b.up.EngineIs(free, err)
		switch {
		case err == nil:
			d.report(free)
			return true
		case ctx.Err() != nil, stopping.Err() != nil && tries >= lastTries:
			return false
		}
		groups.Sleep(ctx, hesitation, nil)
	}
	return false
}

// report counts the outcome, emits events, and passes results to the Calls of this process.
func (d *delivery[T, R]) report(ctx context.Context) {
	b, failed := d.b, 0
	var last error
	for _, r := range d.results {
		if r.Err != nil {
			failed, last = failed+1, r.Err
		}
	}
	b.limited.Add(d.limited)
	b.failed.Add(uint64(failed))
	b.sent.Add(uint64(len(d.results) - failed))
	b.mu.Lock()
	b.answer(d.results...)
	b.mu.Unlock()
	emit := func(e registry.Event, records int, err error) {
		e.Key = d.batch.Group
		e.Attrs = append(e.Attrs, slog.String("batch", d.batch.ID), slog.Int("records", records), slog.Any("err", err))
		if p, ok := errors.AsType[*groups.PanicError](err); ok {
			e.Attrs = append(e.Attrs, slog.String("stack", p.Stack))
		}
		b.life.Emit(ctx, e)
	}
	if d.Called && b.life.Calls() {
		emit(registry.Event{Text: "call ended", Call: true, Attrs: []slog.Attr{slog.Duration("took", d.Took)}}, len(d.all), d.Err)
	}
	if failed > 0 && b.life.Listening() {
		emit(registry.Event{Text: "records failed", Warn: true}, failed, last)
	}
}

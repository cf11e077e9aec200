package dash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gresil/gresil/internal/registry"
)

const timeout = 2 * time.Second // of reading an instance

// A reading is what was read of an instance. With an error, the rows are those that could be read.
type reading struct {
	registry.Entry

	rows   []registry.Row
	err    error
	flight <-chan singleflight.Result // nil if the instance has no rows
}

// readings reads the instances of a kind or, if it is empty, all, at once. Readers that come while an instance is read share the
// result. A reading that never ends keeps one goroutine.
func (h *Handler) readings(ctx context.Context, kind string) (all []reading) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, e := range h.registry.Entries() {
		if kind != "" && kind != e.Kind {
			continue
		}
		one := reading{Entry: e}
		if e.Source.Rows != nil {
			one.flight = h.flights.DoChan(e.Kind+"\x00"+e.Name, func() (any, error) {
				// It outlives the reader that has begun it, and ends before the others do, so that they get what could be read.
				ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout*9/10, errSlow)
				defer cancel()
				return rowsOf(ctx, e)
			})
		}
		all = append(all, one)
	}
	for i := range all {
		if all[i].flight == nil {
			continue
		}
		var done singleflight.Result
		select {
		case done = <-all[i].flight:
		case <-ctx.Done():
			done.Err = errSlow
			select {
			case done = <-all[i].flight: // while another instance took too long
			default:
			}
		}
		all[i].rows, _ = done.Val.([]registry.Row)
		all[i].err = done.Err
	}
	return all
}

var errSlow = fmt.Errorf("no answer within %v", timeout)

// rowsOf reads the rows of an instance.
func rowsOf(ctx context.Context, e registry.Entry) (rows []registry.Row, err error) {
	err = guarded(func() (err error) {
		rows, err = e.Source.Rows(ctx)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return rows, err
}

// guarded calls f. A panic in an instance is its error, so that the page shows the others.
func guarded(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("panic: %w", p)
		case string:
			err = errors.New("panic: " + p)
		default:
			err = fmt.Errorf("panic: a %T", p)
		}
	}()
	return f()
}

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

// A reading is the result of reading an instance. If there is an error, it has the rows that could be read.
type reading struct {
	registry.Entry

	rows   []registry.Row
	err    error
	flight <-chan singleflight.Result // nil if the instance has no rows
}

// readings reads the instances of a kind concurrently; if kind is empty, all. Callers that arrive while an instance is being read share the
// result. If reading an instance never ends, one goroutine remains.
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
				// It can outlive the caller that has begun it, and times out before the callers do, so that they get what could be read.
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
			case done = <-all[i].flight: // it was read while another instance took too long
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

// guarded calls f, and returns a panic as an error, so that the page still shows other instances.
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

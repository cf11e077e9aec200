package dash

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// A reader reads the rows of one instance.
type reader func(ctx context.Context, v view) ([]row, error)

// sections are the tables of the page, in their order.
func sections() []*section {
	return []*section{batchers(), dispatchers(), pacers(), reporters()}
}

func kinds() (names []string) {
	for _, s := range sections() {
		names = append(names, s.kind)
	}
	return names
}

// as returns the instance as a T.
func as[T any](instance any) (t T, ok bool) {
	t, ok = instance.(T)
	return t, ok
}

// query reads the query of a request, and the tables that it selects.
func (h *Handler) query(r *http.Request) (q query, v view, tables []*table, err error) {
	if q, err = parseQuery(r.URL.RawQuery, kinds()); err == nil {
		v, tables, err = h.tables(r.Context(), q)
	}
	return q, v, tables, err
}

// tables reads the instances, all at once, and waits for the slowest for at most the timeout.
func (h *Handler) tables(ctx context.Context, q query) (view, []*table, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.timeout())
	defer cancel()
	v := view{now: time.Now(), keys: h.cfg.Keys}
	var tables []*table
	for _, s := range sections() {
		tables = append(tables, &table{section: s})
	}
	type reading struct {
		of     *table
		entry  registry.Entry
		flight *flight
	}
	var readings []reading
	for _, entry := range h.registry.Entries() {
		for _, t := range tables {
			read := t.reader(entry)
			if read == nil {
				continue
			}
			if q.kind == "" || q.kind == t.kind {
				readings = append(readings, reading{t, entry, h.flights.join(ctx, entry, h.cfg.timeout(), v, read)})
			}
			break
		}
	}
	for _, r := range readings {
		rows, err := r.flight.wait(ctx, h.cfg.timeout())
		if err != nil {
			r.of.problems = append(r.of.problems, problem{Kind: r.entry.Kind, Name: r.entry.Name, Error: failure(err.Error(), h.cfg.Keys).Text})
		}
		r.of.add(r.entry, rows)
	}
	for _, t := range tables {
		if err := t.apply(q); err != nil {
			return v, nil, err
		}
	}
	if q.kind != "" {
		tables = slices.DeleteFunc(tables, func(t *table) bool { return t.kind != q.kind })
	}
	return v, tables, nil
}

// reader returns the reader of an instance, also if its parts cannot be listed, or nil.
func (t *table) reader(e registry.Entry) (read reader) {
	defer func() {
		if p := recover(); p != nil {
			read = func(context.Context, view) ([]row, error) { return nil, &panicError{p} }
		}
	}()
	return t.reads(e)
}

// add adds rows of an instance.
func (t *table) add(e registry.Entry, rows []row) {
	for _, row := range rows {
		row.kind, row.name = e.Kind, e.Name
		t.rows = append(t.rows, row)
	}
}

// flights are the readings that have begun and not ended: at most one for each instance,
// which all readers of that time share. A reading that never ends keeps one goroutine.
type flights struct {
	mu  sync.Mutex
	all map[any]*flight
}

// A flight is one reading.
type flight struct {
	done chan struct{} // closed at the end
	rows []row
	err  error
}

// join returns the reading of an instance, and begins it if there is none.
func (f *flights) join(ctx context.Context, e registry.Entry, timeout time.Duration, v view, read reader) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := [3]any{e.Kind, e.Name, e.Instance}
	if has := f.all[key]; has != nil {
		return has
	}
	if f.all == nil {
		f.all = map[any]*flight{}
	}
	one := &flight{done: make(chan struct{}), err: errUnread}
	f.all[key] = one
	go func() {
		defer func() {
			if p := recover(); p != nil {
				one.err = &panicError{p}
			}
			f.mu.Lock()
			delete(f.all, key)
			f.mu.Unlock()
			close(one.done)
		}()
		// Readers come and go. It ends before they do, so that they get its partial result.
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout-timeout/10, &slowError{timeout})
		defer cancel()
		one.rows, one.err = read(ctx, v)
		if one.err != nil && ctx.Err() != nil {
			one.err = context.Cause(ctx)
		}
	}()
	return one
}

// wait returns the rows, or an error if ctx ends before.
func (f *flight) wait(ctx context.Context, timeout time.Duration) ([]row, error) {
	select {
	case <-f.done:
		return f.rows, f.err
	default:
	}
	select {
	case <-f.done:
		return f.rows, f.err
	case <-ctx.Done():
		return nil, &slowError{timeout}
	}
}

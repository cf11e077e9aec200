package registry

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Source is the report of a mechanism: unexported methods of it, as values. Each can be nil.
type Source struct {
	Figures func() Figures             // the numbers now
	Keys    func(label string) Figures // the same by key, with this label, if there are few enough
	Hosts   func() bool                // whether keys are hosts, and no secrets
	Time    func()                     // measures durations from now on, for Figures

	Events func(calls bool, f func(ctx context.Context, e Event)) (cancel func()) // from now on

	Config func() any                    // for settings and the page
	Set    func(cfg any, dry bool) error // the same type as Config

	// Rows are the parts of the instance for the page, at most 10,000, also those that could be read before an error.
	Rows func(ctx context.Context) ([]Row, error)
	// Control does a verb of a row. The page calls it only for a verb that the row has just offered. n things have changed.
	Control func(ctx context.Context, verb, row string) (n int, err error)
}

// A Row is a part of an instance that a page shows and controls, such as a queue, a group of records or a hold.
type Row struct {
	Key    string // names the row in the instance; any text. If empty, the row is about all of the instance
	Secret bool   // Key can be a secret; without Keys the page shows the row without it, and without verbs
	Alarm  Alarm
	Cells  []Cell   // of rows with the same alarm, those with a larger first number come first
	Verbs  []string // that Control does with it now, such as "pause"; the page asks before one that begins with "delete"
}

// An Alarm says how much a row needs attention.
type Alarm int

// The alarms.
const (
	Calm    Alarm = iota
	Notice        // someone has paused it, or it waits longer than it should
	Failing       // something has failed, or is lost
)

// A Cell is a value of a row.
type Cell struct {
	Name   string // as "held_until"; the same in all rows of a kind, in the same order
	Value  any    // a text, a bool, an int, a uint64, a float64, a time.Duration, a time.Time, or a []string of details; a zero time is none
	Secret bool   // a text that can contain secrets, such as that of an error
}

// A Figure is a number, or a histogram.
type Figure struct {
	Name   string // without the kind; that of a counter ends with _total
	Help   string
	Labels []string // a name and a value in turn, besides the name of the instance
	N      float64
	Dist   *Distribution // of a histogram
	Warn   string        // a constant text for the log when this counter grows, or empty
}

// Figures collects the figures of a Source.
type Figures []Figure

// Add adds a figure.
func (f *Figures) Add(name, help string, n float64, labels ...string) {
	*f = append(*f, Figure{Name: name, Help: help, N: n, Labels: labels})
}

// Count adds a counter.
func (f *Figures) Count(name, help string, n uint64, labels ...string) {
	f.Add(name, help, float64(n), labels...)
}

// Warn adds a counter whose growth is logged with a text.
func (f *Figures) Warn(name, help string, n uint64, text string, labels ...string) {
	f.Count(name, help, n, labels...)
	(*f)[len(*f)-1].Warn = text
}

// Counts adds a counter for each value of a label. Counts are values of the label and numbers (uint64) in turn.
func (f *Figures) Counts(name, help, label string, counts ...any) {
	for pair := range slices.Chunk(counts, 2) {
		f.Count(name, help, pair[1].(uint64), label, pair[0].(string))
	}
}

// Histogram adds a histogram.
func (f *Figures) Histogram(name, help string, h *Histogram, labels ...string) {
	*f = append(*f, Figure{Name: name, Help: help, Dist: h.read(), Labels: labels})
}

// A Distribution is the contents of a histogram of durations.
type Distribution struct {
	Count  uint64
	Sum    time.Duration
	Within map[time.Duration]uint64 // no longer than this
}

// bounds of the buckets of a Histogram, in microseconds.
//
//nolint:gochecknoglobals // a constant
var bounds = [...]int64{100, 500, 1e3, 25e2, 5e3, 1e4, 25e3, 5e4, 1e5, 25e4, 5e5, 1e6, 25e5, 5e6, 1e7, 3e7}

// A Histogram counts durations. The zero value is ready to use.
type Histogram struct {
	counts [len(bounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

// Observe adds a duration.
func (h *Histogram) Observe(d time.Duration) {
	i, _ := slices.BinarySearchFunc(bounds[:], d, func(bound int64, d time.Duration) int {
		return cmp.Compare(time.Duration(bound)*time.Microsecond, d)
	})
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

func (h *Histogram) read() *Distribution {
	d := &Distribution{Within: make(map[time.Duration]uint64, len(bounds)), Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		if d.Count += h.counts[i].Load(); i < len(bounds) {
			d.Within[time.Duration(bounds[i])*time.Microsecond] = d.Count
		}
	}
	return d
}

// An Event is something that happened.
type Event struct {
	Text   string // constant
	Call   bool   // of a single call
	Warn   bool   // something has failed, or is lost
	Outage bool   // of a store: with Warn each operation that it has failed, without it the first one after that
	Key    string // a copy; it may be a secret, unless the keys are hosts
	Attrs  []slog.Attr
}

// Attr returns the value of an attribute, or the zero Value.
func (e Event) Attr(key string) slog.Value {
	for _, a := range e.Attrs {
		if a.Key == key {
			return a.Value
		}
	}
	return slog.Value{}
}

// Err returns the attribute err, or nil.
func (e Event) Err() error {
	err, _ := e.Attr("err").Any().(error)
	return err
}

// Listeners observe the events of one instance. The zero value is ready to use.
type Listeners struct {
	mu  sync.Mutex
	all atomic.Pointer[[]*listener] // nil before the first
}

type listener struct {
	calls bool
	f     func(ctx context.Context, e Event)
}

// Add calls f for each event, those of single calls only with calls, until cancel is called.
func (l *Listeners) Add(calls bool, f func(ctx context.Context, e Event)) (cancel func()) {
	added := &listener{calls, f}
	l.set(func(all []*listener) []*listener { return append(all, added) })
	return func() {
		l.set(func(all []*listener) []*listener {
			return slices.DeleteFunc(all, func(o *listener) bool { return o == added })
		})
	}
}

func (l *Listeners) set(change func(all []*listener) []*listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := change(slices.Clone(l.list()))
	l.all.Store(&all)
}

// list returns the listeners.
func (l *Listeners) list() []*listener {
	if all := l.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Listening reports whether there is a listener.
func (l *Listeners) Listening() bool { return len(l.list()) > 0 }

// Calls reports whether there is a listener for events of single calls.
func (l *Listeners) Calls() bool {
	return slices.ContainsFunc(l.list(), func(o *listener) bool { return o.calls })
}

// Emit passes an event on. Call it without a lock, after the state has changed, and only if there is a listener: an event costs
// allocations.
func (l *Listeners) Emit(ctx context.Context, e Event) {
	for _, o := range l.list() {
		if o.calls || !e.Call {
			o.f(ctx, e)
		}
	}
}

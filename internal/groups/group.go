package groups

import (
	"container/heap"
	"slices"
	"time"
)

// A group in memory.
type group struct {
	name      string
	number    int // in the order of their making
	pending   []*record
	keys      map[string]*record // of pending ones
	due       int                // how many of pending are
	waiting   []*batch           // by time
	failed    []*record
	flight    int // records of batches that are taken
	paused    bool
	lastCall  time.Time
	lastError string

	queued bool      // it is in line.due
	at     time.Time // of line.times
	index  int       // in line.times, or -1
}

func (g *group) empty() bool {
	return len(g.pending)+len(g.waiting)+len(g.failed)+g.flight == 0 && !g.paused
}

// next returns when the group is due; the zero time is never. Records become due together.
func (g *group) next(now time.Time, flushAfter time.Duration) (at time.Time) {
	if len(g.pending) > 0 {
		if at = g.pending[0].Added.Add(flushAfter); !at.After(now) {
			g.due = len(g.pending)
		} else if g.due > 0 {
			at = g.pending[0].Added
		}
	}
	if len(g.waiting) > 0 && (at.IsZero() || g.waiting[0].at.Before(at)) {
		at = g.waiting[0].at
	}
	return at
}

// wait adds a batch that waits.
func (g *group) wait(b *batch) {
	i := len(g.waiting)
	for i > 0 && g.waiting[i-1].at.After(b.at) {
		i--
	}
	g.waiting = slices.Insert(g.waiting, i, b)
}

// take returns the batch that is first, or makes one of the oldest pending records.
func (g *group) take(terms *Terms, now time.Time) *batch {
	if len(g.waiting) > 0 && !g.waiting[0].at.After(now) {
		b := g.waiting[0]
		g.waiting = g.waiting[1:]
		return b
	}
	n, bytes := 0, 0
	for n < min(terms.MaxRecords, len(g.pending)) {
		bytes += len(g.pending[n].Payload)
		if n > 0 && terms.MaxBytes > 0 && bytes > terms.MaxBytes {
			break
		}
		n++
	}
	b := &batch{Batch: Batch{ID: terms.ID, Group: g.name}, group: g, all: slices.Clone(g.pending[:n])}
	for _, r := range b.all {
		if g.keys[r.Key] == r {
			delete(g.keys, r.Key)
		}
	}
	clear(g.pending[:n])
	g.pending, g.due = g.pending[n:], max(0, g.due-n)
	return b
}

// flush makes all records due that are not taken.
func (g *group) flush(now time.Time) (n int) {
	g.due = len(g.pending)
	for _, b := range g.waiting {
		n += len(b.all)
		if b.at.After(now) {
			b.at = now
		}
	}
	return n + len(g.pending)
}

func (g *group) describe(now time.Time, flushAfter time.Duration) Group {
	d := Group{
		Name: g.name, Pending: len(g.pending), InFlight: g.flight, Failed: len(g.failed), Paused: g.paused,
		Next: g.next(now, flushAfter), LastCall: g.lastCall, LastError: g.lastError,
	}
	if len(g.pending) > 0 {
		d.Oldest = g.pending[0].Added
	}
	for _, b := range g.waiting {
		if d.Pending += len(b.all); d.Oldest.IsZero() || b.all[0].Added.Before(d.Oldest) {
			d.Oldest = b.all[0].Added
		}
	}
	return d
}

// times are groups by the time at which they are due: a heap.
type times []*group

// set puts a group under a time; the zero time takes it out.
func (t *times) set(g *group, at time.Time) {
	if g.index >= 0 {
		heap.Remove(t, g.index)
	}
	if g.at = at; !at.IsZero() {
		heap.Push(t, g)
	}
}

// Len is for package heap, as the others.
func (t *times) Len() int { return len(*t) }

// Less compares times.
func (t *times) Less(i, j int) bool { return (*t)[i].at.Before((*t)[j].at) }

// Swap exchanges two groups.
func (t *times) Swap(i, j int) {
	(*t)[i], (*t)[j] = (*t)[j], (*t)[i]
	(*t)[i].index, (*t)[j].index = i, j
}

// Push adds a group.
func (t *times) Push(g any) {
	g.(*group).index = len(*t) //nolint:forcetypeassert // nothing else is in it
	*t = append(*t, g.(*group))
}

// Pop removes the last group.
func (t *times) Pop() any {
	g := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	g.index = -1
	return g
}

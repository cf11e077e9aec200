package groups

import (
	"time"

	"github.com/gresil/gresil/internal/minheap"
)

// A group in memory.
type group struct {
	minheap.Place // in line.times
	Group         // without Pending, Failed, Oldest and Next, which describe adds

	number  int // in the order of their making
	pending []*record
	keys    map[string]*record // of pending ones
	due     int                // how many of pending are
	waiting []*batch           // by time
	failed  []*record

	queued bool      // it is in line.due
	at     time.Time // of line.times
}

// Before orders groups by the time at which they are due.
func (g *group) Before(o *group) bool { return g.at.Before(o.at) }

// fill makes the pending records due if they are n.
func (g *group) fill(n int) {
	if n > 0 && len(g.pending) >= n {
		g.due = len(g.pending)
	}
}

// next returns when the group is due; the zero time is never. Records become due together.
func (g *group) next(now time.Time, flushAfter time.Duration) (at time.Time) {
	if len(g.pending) > 0 {
		if at = g.pending[0].at.Add(flushAfter); !at.After(now) {
			g.due = len(g.pending)
		} else if g.due > 0 {
			at = g.pending[0].at
		}
	}
	if len(g.waiting) > 0 && (at.IsZero() || g.waiting[0].at.Before(at)) {
		at = g.waiting[0].at
	}
	return at
}

// take returns the batch that is first, or makes one of the oldest pending records.
func (g *group) take(terms *Terms, now time.Time) *batch {
	if len(g.waiting) > 0 && !g.waiting[0].at.After(now) {
		b := g.waiting[0]
		g.waiting = g.waiting[1:]
		return b
	}
	b := &batch{Batch: Batch{ID: terms.ID, Turn: 1, Group: g.Name}}
	bytes := 0
	for i, r := range g.pending[:min(terms.MaxRecords, len(g.pending))] {
		if bytes += len(r.Payload); i > 0 && terms.MaxBytes > 0 && bytes > terms.MaxBytes {
			break
		}
		if g.keys[r.Key] == r {
			delete(g.keys, r.Key)
		}
		b.Records = append(b.Records, r.Record)
		g.pending[i] = nil
	}
	g.pending, g.due = g.pending[len(b.Records):], max(0, g.due-len(b.Records))
	return b
}

// flush makes all records due that are not taken.
func (g *group) flush(now time.Time) (n int) {
	g.due = len(g.pending)
	for _, b := range g.waiting {
		n += len(b.Records)
		if b.at.After(now) {
			b.at = now
		}
	}
	return n + len(g.pending)
}

func (l *line) describe(g *group, now time.Time, flushAfter time.Duration) Group {
	d := g.Group
	d.Pending, d.Failed, d.Next = len(g.pending), len(g.failed), g.next(now, flushAfter)
	if len(g.pending) > 0 {
		d.Oldest = g.pending[0].at
	}
	for _, b := range g.waiting {
		d.Pending += len(b.Records)
		if at := l.records[b.Records[0].ID].at; d.Oldest.IsZero() || at.Before(d.Oldest) {
			d.Oldest = at
		}
	}
	return d
}

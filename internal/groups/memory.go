package groups

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/minheap"
)

const maxResults = 1_000_000 // that are kept in memory; the oldest go

// A memory is a Store in the memory of the process. No job is lost without it, so no batch is given again.
type memory struct {
	mu    sync.Mutex
	lines map[string]*line
}

// NewMemory returns a store in memory.
func NewMemory() Store { return &memory{lines: map[string]*line{}} }

// A line is the state of one queue.
type line struct {
	records    map[string]*record // and those whose result is known
	groups     map[string]*group
	batches    map[string]*batch
	ahead      map[string]*batch    // those that are taken and not loaded
	due        []*group             // in the order of their turns
	times      minheap.Heap[*group] // of groups that are not due
	ended      []*record            // whose result is known
	flushAfter time.Duration
	made       int // groups
}

type record struct {
	Record
	at     time.Time // of its arrival, and then of its end
	result Result
}

// A batch in memory waits until at, or is taken.
type batch struct {
	Batch
	at time.Time
}

// open returns the state of a queue, until unlock is called.
func (m *memory) open(queue string) (l *line, now time.Time, unlock func()) {
	m.mu.Lock()
	now = time.Now()
	if l = m.lines[queue]; l == nil {
		l = &line{records: map[string]*record{}, groups: map[string]*group{}, batches: map[string]*batch{}, ahead: map[string]*batch{}}
		l.flushAfter = math.MaxInt64
		m.lines[queue] = l
	}
	for len(l.ended) > 0 && (len(l.ended) > maxResults || now.Sub(l.ended[0].at) >= ResultLife) {
		delete(l.records, l.ended[0].ID)
		l.ended = l.ended[1:]
	}
	return l, now, m.mu.Unlock
}

// left is the number of records that are not done.
func (l *line) left() int { return len(l.records) - len(l.ended) }

func (l *line) group(name string) *group {
	g := l.groups[name]
	if g == nil {
		l.made++
		g = &group{Group: Group{Name: name}, number: l.made, keys: map[string]*record{}}
		l.groups[name] = g
	}
	return g
}

// place puts a group where it belongs after each change: it is due, or it waits for its time, or it ends.
func (l *line) place(g *group, now time.Time) {
	at := g.next(now, l.flushAfter)
	due := !at.IsZero() && !at.After(now) && !g.Paused
	switch {
	case due && !g.queued:
		l.due = append(l.due, g)
	case !due && g.queued:
		l.due = slices.DeleteFunc(l.due, func(o *group) bool { return o == g })
	}
	if g.queued = due; due || g.Paused {
		at = time.Time{}
	}
	if l.times.Remove(g); !at.IsZero() {
		g.at = at
		l.times.Add(g)
	}
	if len(g.pending)+len(g.waiting)+len(g.failed)+g.InFlight == 0 && !g.Paused {
		delete(l.groups, g.Name)
	}
}

func (m *memory) Add(_ context.Context, queue string, r Record, rules Rules) (string, bool, error) {
	l, now, unlock := m.open(queue)
	defer unlock()
	if g := l.groups[r.Group]; g != nil && r.Key != "" && g.keys[r.Key] != nil {
		g.keys[r.Key].Payload = r.Payload
		return g.keys[r.Key].ID, g.queued, nil
	}
	switch {
	case l.records[r.ID] != nil: // it was sent again
		return r.ID, false, nil
	case l.left() >= rules.MaxPending:
		return "", false, ErrFull
	}
	g := l.group(r.Group)
	l.records[r.ID] = &record{r, now, Result{ID: r.ID, Waits: true}}
	if g.pending = append(g.pending, l.records[r.ID]); r.Key != "" {
		g.keys[r.Key] = l.records[r.ID]
	}
	if g.fill(rules.FlushSize); len(g.pending) == 1 || g.due > 0 {
		l.place(g, now)
	}
	return r.ID, g.queued, nil
}

func (m *memory) Take(_ context.Context, queue string, terms Terms) (Batch, State, error) {
	l, now, unlock := m.open(queue)
	defer unlock()
	if l.flushAfter != terms.FlushAfter || terms.FlushSize > 0 {
		l.flushAfter = terms.FlushAfter
		for _, g := range l.sorted() {
			g.fill(terms.FlushSize)
			l.place(g, now)
		}
	}
	for l.times.Len() > 0 && !l.times.First().at.After(now) {
		l.place(l.times.First(), now)
	}
	state := State{Next: -1, Records: l.left()}
	if len(l.due) == 0 || len(l.ahead) >= terms.Ahead {
		if l.times.Len() > 0 {
			state.Next = l.times.First().at.Sub(now)
		}
		return Batch{}, state, nil
	}
	g := l.due[0]
	l.due, g.queued = l.due[1:], false
	b := g.take(&terms, now)
	l.batches[b.ID], l.ahead[b.ID] = b, b
	g.InFlight += len(b.Records)
	g.LastCall = now
	l.place(g, now)
	taken := b.Batch
	taken.Records = nil
	return taken, state, nil
}

// load returns the batch of an ID and a turn, or an empty one.
func (l *line) load(id string, turn int) *batch {
	b := l.batches[id]
	if b == nil || b.Turn != turn {
		return &batch{}
	}
	delete(l.ahead, id)
	return b
}

func (m *memory) Load(_ context.Context, queue, id string, turn int) (Batch, error) {
	l, _, unlock := m.open(queue)
	defer unlock()
	return l.load(id, turn).Batch, nil
}

func (m *memory) Replace(_ context.Context, queue string, old Batch, parts []Part, results []Result, last error) error {
	l, now, unlock := m.open(queue)
	defer unlock()
	b := l.load(old.ID, old.Turn)
	if b.ID == "" {
		return ErrReplaced
	}
	g := l.groups[b.Group]
	delete(l.batches, b.ID)
	g.InFlight -= len(b.Records)
	for _, p := range parts {
		part := &batch{Batch: Batch{ID: p.ID, Turn: 1, Group: g.Name, Attempts: p.Attempts, Losses: p.Losses}, at: now.Add(p.After)}
		if p.ID == b.ID {
			part.Turn += b.Turn
		}
		for _, i := range p.Records {
			part.Records = append(part.Records, b.Records[i])
		}
		l.batches[p.ID] = part
		later := sort.Search(len(g.waiting), func(i int) bool { return g.waiting[i].at.After(part.at) })
		g.waiting = slices.Insert(g.waiting, later, part)
	}
	for _, r := range results {
		end := l.records[r.ID]
		if end.result = r; r.Err != nil {
			g.failed = append(g.failed, end)
			continue
		}
		end.at, end.Payload = now, nil
		l.ended = append(l.ended, end)
	}
	if last != nil {
		g.LastError = last.Error()
	}
	l.place(g, now)
	return nil
}

func (m *memory) Control(_ context.Context, queue string, v Verb, names ...string) (n int, err error) {
	l, now, unlock := m.open(queue)
	defer unlock()
	if len(names) == 0 {
		for _, g := range l.sorted() {
			names = append(names, g.Name)
		}
	}
	for _, name := range names {
		g := l.groups[name]
		if g == nil && v != Pause {
			continue
		}
		g = l.group(name)
		switch v {
		case Flush:
			n += g.flush(now)
		case Pause, Resume:
			g.Paused = v == Pause
		case Retry:
			n += len(g.failed)
			for _, r := range g.failed {
				r.result = Result{ID: r.ID, Waits: true}
			}
			g.pending = slices.Concat(g.failed, g.pending)
			g.fill(len(g.failed))
			g.failed = nil
		case Delete:
			n += l.clear(g)
		}
		l.place(g, now)
	}
	return n, nil
}

// clear removes the records of a group that are in no call yet, and returns their number.
func (l *line) clear(g *group) int {
	gone := slices.Concat(g.pending, g.failed)
	lost := g.waiting
	for id, b := range l.ahead {
		if b.Group == g.Name {
			lost = append(lost, b)
			g.InFlight -= len(b.Records)
			delete(l.ahead, id)
		}
	}
	for _, b := range lost {
		delete(l.batches, b.ID)
		for _, r := range b.Records {
			gone = append(gone, l.records[r.ID])
		}
	}
	for _, r := range gone {
		delete(l.records, r.ID)
	}
	g.pending, g.failed, g.waiting, g.due = nil, nil, nil, 0
	clear(g.keys)
	return len(gone)
}

func (l *line) sorted() []*group {
	return slices.SortedFunc(maps.Values(l.groups), func(a, b *group) int { return cmp.Compare(a.number, b.number) })
}

func (m *memory) Groups(_ context.Context, queue string, flushAfter time.Duration, n int) (all []Group, err error) {
	l, now, unlock := m.open(queue)
	defer unlock()
	found := l.sorted()
	for _, g := range found[:min(n, len(found))] {
		all = append(all, l.describe(g, now, flushAfter))
	}
	return all, nil
}

func (m *memory) Failed(_ context.Context, queue, name string, from, n int) (all []Failure, err error) {
	l, _, unlock := m.open(queue)
	defer unlock()
	if g := l.groups[name]; g != nil {
		for _, r := range g.failed[min(from, len(g.failed)):min(from+n, len(g.failed))] {
			all = append(all, Failure{r.Record, r.result.Err})
		}
	}
	return all, nil
}

func (m *memory) Results(_ context.Context, queue string, ids []string) (map[string]Result, error) {
	l, _, unlock := m.open(queue)
	defer unlock()
	all := map[string]Result{}
	for _, id := range ids {
		if r := l.records[id]; r != nil {
			all[id] = r.result
		}
	}
	return all, nil
}

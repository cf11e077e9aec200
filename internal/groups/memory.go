package groups

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

const maxResults = 1_000_000 // that are kept in memory; the oldest go

// A memory is a Store in the memory of the process. A job cannot be lost without it, so a batch that was loaded is not given again.
type memory struct {
	mu    sync.Mutex
	lines map[string]*line
}

// NewMemory returns a store in memory.
func NewMemory() Store { return &memory{lines: map[string]*line{}} }

// A line is the state of one queue.
type line struct {
	records    map[string]*record
	groups     map[string]*group
	batches    map[string]*batch
	taken      []*batch // and not loaded
	due        []*group // in the order of their turns
	times      times    // of groups that are not due
	flushAfter time.Duration
	made       int // groups
	results    map[string]Result
	ended      []ended
}

type record struct {
	Record
	err error // it has failed
}

// A batch in memory waits until at, or is taken.
type batch struct {
	Batch
	group *group
	all   []*record
	at    time.Time // taken: when it is given again
	taken bool
}

// ended is a record whose result is known.
type ended struct {
	id string
	at time.Time
}

func (m *memory) open(queue string) (*line, time.Time) {
	m.mu.Lock()
	l := m.lines[queue]
	if l == nil {
		l = &line{
			records: map[string]*record{}, groups: map[string]*group{}, batches: map[string]*batch{},
			results: map[string]Result{}, flushAfter: math.MaxInt64,
		}
		m.lines[queue] = l
	}
	return l, time.Now()
}

func (l *line) group(name string) *group {
	g := l.groups[name]
	if g == nil {
		l.made++
		g = &group{name: name, number: l.made, keys: map[string]*record{}, index: -1}
		l.groups[name] = g
	}
	return g
}

// place puts a group where it belongs after each change: it is due, or it waits for its time, or it ends.
func (l *line) place(g *group, now time.Time) {
	at := g.next(now, l.flushAfter)
	due := !at.IsZero() && !at.After(now) && !g.paused
	switch {
	case due && !g.queued:
		l.due = append(l.due, g)
	case !due && g.queued:
		l.due = slices.DeleteFunc(l.due, func(o *group) bool { return o == g })
	}
	if g.queued = due; due || g.paused {
		at = time.Time{}
	}
	l.times.set(g, at)
	if g.empty() {
		delete(l.groups, g.name)
	}
}

func (m *memory) Add(_ context.Context, queue string, r Record, rules Rules) (string, bool, error) {
	l, now := m.open(queue)
	defer m.mu.Unlock()
	if g := l.groups[r.Group]; g != nil && r.Key != "" && g.keys[r.Key] != nil {
		g.keys[r.Key].Payload = r.Payload
		return g.keys[r.Key].ID, g.queued, nil
	}
	_, done := l.results[r.ID]
	switch {
	case l.records[r.ID] != nil || done: // it was sent again
		return r.ID, false, nil
	case len(l.records) >= rules.MaxPending:
		return "", false, ErrFull
	}
	g := l.group(r.Group)
	r.Added = now
	added := &record{Record: r}
	l.records[r.ID] = added
	if g.pending = append(g.pending, added); r.Key != "" {
		g.keys[r.Key] = added
	}
	if rules.FlushSize > 0 && len(g.pending) >= rules.FlushSize {
		g.due = len(g.pending)
	}
	if len(g.pending) == 1 || g.due > 0 {
		l.place(g, now)
	}
	return r.ID, g.queued, nil
}

func (m *memory) Take(_ context.Context, queue string, terms Terms) (Batch, State, error) {
	l, now := m.open(queue)
	defer m.mu.Unlock()
	if l.flushAfter != terms.FlushAfter {
		l.flushAfter = terms.FlushAfter
		for _, g := range l.groups {
			l.place(g, now)
		}
	}
	for len(l.times) > 0 && !l.times[0].at.After(now) {
		l.place(l.times[0], now)
	}
	b := l.take(&terms, now)
	state := State{Due: len(l.due) > 0, Next: -1, Records: len(l.records)}
	next := func(at time.Time) {
		if d := max(0, at.Sub(now)); state.Next < 0 || d < state.Next {
			state.Next = d
		}
	}
	for _, t := range l.taken {
		next(t.at)
	}
	if len(l.times) > 0 {
		next(l.times[0].at)
	}
	return b, state, nil
}

func (l *line) take(terms *Terms, now time.Time) Batch {
	i := slices.IndexFunc(l.taken, func(b *batch) bool { return !b.at.After(now) })
	switch {
	case i >= 0:
		l.taken[i].at = now.Add(terms.Again)
		return l.taken[i].Batch
	case len(l.taken) >= terms.Ahead || len(l.due) == 0:
		return Batch{}
	}
	g := l.due[0]
	l.due, g.queued = l.due[1:], false
	b := g.take(terms, now)
	b.Turn++
	b.taken, b.at = true, now.Add(terms.Again)
	l.batches[b.ID] = b
	l.taken = append(l.taken, b)
	g.flight += len(b.all)
	g.lastCall = now
	l.place(g, now)
	return b.Batch
}

func (m *memory) Load(_ context.Context, queue, id string, turn int) (Batch, error) {
	l, _ := m.open(queue)
	defer m.mu.Unlock()
	b := l.batches[id]
	if b == nil || b.Turn != turn || !b.taken {
		return Batch{}, nil
	}
	l.loaded(b)
	full := b.Batch
	for _, r := range b.all {
		full.Records = append(full.Records, r.Record)
	}
	return full, nil
}

func (l *line) loaded(b *batch) {
	l.taken = slices.DeleteFunc(l.taken, func(o *batch) bool { return o == b })
}

func (m *memory) Replace(_ context.Context, queue string, old Batch, parts []Part, results []Result, text string) error {
	l, now := m.open(queue)
	defer m.mu.Unlock()
	b := l.batches[old.ID]
	if b == nil || b.Turn != old.Turn || !b.taken {
		return ErrReplaced
	}
	g := b.group
	l.loaded(b)
	delete(l.batches, b.ID)
	g.flight -= len(b.all)
	for _, p := range parts {
		part := &batch{Batch: Batch{ID: p.ID, Group: g.name, Attempts: p.Attempts, Losses: p.Losses}, group: g, at: now.Add(p.After)}
		if p.ID == b.ID {
			part.Turn = b.Turn
		}
		for _, i := range p.Records {
			part.all = append(part.all, b.all[i])
		}
		l.batches[p.ID] = part
		g.wait(part)
	}
	for _, r := range results {
		l.end(g, r, now)
	}
	if text != "" {
		g.lastError = text
	}
	l.place(g, now)
	return nil
}

// end ends a record that is done, or has failed.
func (l *line) end(g *group, r Result, now time.Time) {
	if r.Err != nil {
		l.records[r.ID].err = r.Err
		g.failed = append(g.failed, l.records[r.ID])
		return
	}
	delete(l.records, r.ID)
	l.results[r.ID] = r
	l.ended = append(l.ended, ended{r.ID, now})
	for len(l.ended) > maxResults || now.Sub(l.ended[0].at) >= ResultLife {
		delete(l.results, l.ended[0].id)
		l.ended = l.ended[1:]
	}
}

func (m *memory) Control(_ context.Context, queue string, v Verb, names ...string) (n int, err error) {
	l, now := m.open(queue)
	defer m.mu.Unlock()
	if len(names) == 0 {
		for _, g := range l.sorted() {
			names = append(names, g.name)
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
			g.paused = v == Pause
		case Retry:
			n += len(g.failed)
			for _, r := range g.failed {
				r.err = nil
			}
			if g.pending = append(g.pending, g.failed...); len(g.failed) > 0 {
				g.due = len(g.pending)
			}
			g.failed = nil
		case Delete:
			n += l.clear(g)
		}
		l.place(g, now)
	}
	return n, nil
}

// clear removes what is not taken of a group.
func (l *line) clear(g *group) (n int) {
	remove := func(all []*record) {
		n += len(all)
		for _, r := range all {
			delete(l.records, r.ID)
		}
	}
	remove(g.pending)
	remove(g.failed)
	for _, b := range g.waiting {
		remove(b.all)
		delete(l.batches, b.ID)
	}
	g.pending, g.failed, g.waiting, g.due = nil, nil, nil, 0
	clear(g.keys)
	return n
}

func (l *line) sorted() []*group {
	return slices.SortedFunc(maps.Values(l.groups), func(a, b *group) int { return cmp.Compare(a.number, b.number) })
}

func (m *memory) Groups(_ context.Context, queue string, flushAfter time.Duration, n int) (all []Group, err error) {
	l, now := m.open(queue)
	defer m.mu.Unlock()
	for _, g := range l.sorted() {
		if len(all) < n {
			all = append(all, g.describe(now, flushAfter))
		}
	}
	return all, nil
}

func (m *memory) Failed(_ context.Context, queue, name string, from, n int) (all []Failure, err error) {
	l, _ := m.open(queue)
	defer m.mu.Unlock()
	if g := l.groups[name]; g != nil {
		for _, r := range g.failed[min(from, len(g.failed)):min(from+n, len(g.failed))] {
			all = append(all, Failure{r.Record, r.err})
		}
	}
	return all, nil
}

func (m *memory) Results(_ context.Context, queue string, ids []string) (map[string]Result, error) {
	l, now := m.open(queue)
	defer m.mu.Unlock()
	for len(l.ended) > 0 && now.Sub(l.ended[0].at) >= ResultLife {
		delete(l.results, l.ended[0].id)
		l.ended = l.ended[1:]
	}
	all := map[string]Result{}
	for _, id := range ids {
		if r := l.records[id]; r != nil {
			all[id] = Result{ID: id, Err: r.err, Waits: r.err == nil}
		} else if r, ok := l.results[id]; ok {
			all[id] = r
		}
	}
	return all, nil
}

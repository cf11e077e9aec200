package batch

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"
)

// NewMemory returns a Store in the memory of the process, for tests of several batchers that share
// their groups. A batcher without a Store has one of its own, which does not encode the records.
func NewMemory() Store { return newMemory() }

func newMemory() *memory { return &memory{lines: map[string]*line{}} }

type memory struct {
	mu    sync.Mutex
	lines map[string]*line
}

// A line is the state of one method.
type line struct {
	method  string
	groups  map[string]*group
	queue   list.List // of due groups that are not paused
	aging   timers[*group]
	sets    map[string]*set
	times   timers[*set]
	records int
	calls   clock
	inboxes map[string]*inbox
}

// open locks the store and returns the line of a method.
func (m *memory) open(method string) *line {
	m.mu.Lock()
	l := m.lines[method]
	if l == nil {
		l = &line{method: method, groups: map[string]*group{}, sets: map[string]*set{}, inboxes: map[string]*inbox{}}
		m.lines[method] = l
	}
	return l
}

// group returns the group of an option, and makes it.
func (l *line) group(option string, maxGroups int) (*group, error) {
	g := l.groups[option]
	if g == nil {
		if len(l.groups) >= maxGroups {
			return nil, ErrGroups
		}
		g = &group{option: option}
		l.groups[option] = g
	}
	return g, nil
}

// update puts a group where it belongs after a change.
func (l *line) update(g *group) {
	aging := g.pending.len() > 0 && !g.marked()
	if aging != (g.aging.place > 0) {
		if aging {
			l.aging.add(g, g.pending.first().Added)
		} else {
			l.aging.remove(g)
		}
	}
	queued := g.due() && !g.paused
	if queued != (g.place != nil) {
		if queued {
			g.place = l.queue.PushBack(g)
		} else {
			l.queue.Remove(g.place)
			g.place = nil
		}
	}
	if g.pending.len() == 0 && g.sets == 0 && len(g.failed) == 0 && !g.paused {
		delete(l.groups, g.option)
	}
}

// advance moves groups and sets that have become due by time into the queue, in the order of these times.
func (l *line) advance(now time.Time, flushAfter time.Duration) {
	for {
		age := len(l.aging) > 0 && now.Sub(l.aging[0].aging.at) >= flushAfter
		wait := len(l.times) > 0 && !l.times[0].until.at.After(now)
		switch {
		case wait && (!age || l.times[0].until.at.Before(l.aging[0].aging.at.Add(flushAfter))):
			s := l.times[0]
			l.times.remove(s)
			s.group.ready = append(s.group.ready, s)
			l.update(s.group)
		case age:
			g := l.aging[0]
			g.mark = g.newest
			l.update(g)
		default:
			return
		}
	}
}

func (l *line) state(now time.Time, flushAfter time.Duration) State {
	state := State{Due: l.queue.Len() > 0, Next: -1, Records: l.records}
	next := func(d time.Duration) {
		if state.Next < 0 || d < state.Next {
			state.Next = max(0, d)
		}
	}
	if len(l.aging) > 0 {
		next(flushAfter - now.Sub(l.aging[0].aging.at))
	}
	if len(l.times) > 0 {
		next(l.times[0].until.at.Sub(now))
	}
	return state
}

func (m *memory) Add(_ context.Context, method string, rec *Record, rules Rules) (Added, error) {
	now := time.Now()
	l := m.open(method)
	defer m.mu.Unlock()
	if g := l.groups[rec.Option]; g != nil && rec.Key != "" {
		if holder := g.keys[rec.Key]; holder != nil {
			g.replace(holder, rec)
			return Added{ID: holder.ID, Replaced: true, Due: g.due()}, nil
		}
	}
	if l.records >= rules.MaxPending {
		return Added{}, ErrFull
	}
	g, err := l.group(rec.Option, rules.MaxGroups)
	if err != nil {
		return Added{}, err
	}
	rec.Added = now
	g.append(rec)
	l.records++
	full := rules.FlushSize > 0 && g.pending.len() >= rules.FlushSize
	if full {
		g.mark = g.newest
	}
	if full || g.aging.place == 0 {
		l.update(g)
	}
	return Added{ID: rec.ID, Due: g.due()}, nil
}

func (m *memory) Ready(_ context.Context, method string, flushAfter time.Duration) (State, error) {
	now := time.Now()
	l := m.open(method)
	defer m.mu.Unlock()
	l.advance(now, flushAfter)
	return l.state(now, flushAfter), nil
}

func (m *memory) Lease(_ context.Context, method string, terms Terms) (Batch, State, error) {
	now := time.Now()
	l := m.open(method)
	defer m.mu.Unlock()
	l.advance(now, terms.FlushAfter)
	if s := l.sets[terms.ID]; s != nil { // repeated
		if s.leased && s.delivery == 1 && s.until.place > 0 {
			return s.batch(false), l.state(now, terms.FlushAfter), nil
		}
		return Batch{}, l.state(now, terms.FlushAfter), nil
	}
	head := l.queue.Front()
	if head == nil {
		return Batch{}, l.state(now, terms.FlushAfter), nil
	}
	g := head.Value.(*group) //nolint:forcetypeassert // nothing but groups is in it
	l.queue.Remove(head)
	g.place = nil
	s := l.next(g, &terms)
	s.delivery++
	expired := s.leased
	if expired && !s.waiting {
		s.losses++
	}
	s.leased, s.waiting = true, false
	s.count(1)
	l.times.add(s, now.Add(terms.Lease))
	l.calls.count(now)
	g.info.LastCall = now
	l.update(g)
	return s.batch(expired), l.state(now, terms.FlushAfter), nil
}

// batch returns the set as its holder gets it.
func (s *set) batch(expired bool) Batch {
	b := Batch{ID: s.id, Delivery: s.delivery, Expired: expired, Losses: s.losses, Option: s.group.option, Records: make([]Record, len(s.records))}
	for i, r := range s.records {
		b.Records[i] = *r
		b.Records[i].ReplyTo = slices.Clone(r.ReplyTo)
	}
	return b
}

// next returns the set of a due group that is leased next.
func (l *line) next(g *group, terms *Terms) *set {
	if len(g.ready) > 0 {
		s := g.ready[0]
		g.ready = slices.Delete(g.ready, 0, 1)
		s.count(-1)
		return s
	}
	s := g.take(terms)
	g.sets++
	l.sets[s.id] = s
	return s
}

// leased returns a set that is leased.
func (l *line) leased(id string, delivery int) (*set, error) {
	s := l.sets[id]
	if s == nil || !s.leased || s.delivery != delivery {
		return nil, ErrLeaseLost
	}
	return s, nil
}

// withdraw takes a set out of the places where it waits.
func (l *line) withdraw(s *set) {
	l.times.remove(s)
	s.group.ready = slices.DeleteFunc(s.group.ready, func(other *set) bool { return other == s })
}

func (m *memory) Extend(_ context.Context, method, id string, delivery int, lease time.Duration, waiting bool) error {
	now := time.Now()
	l := m.open(method)
	defer m.mu.Unlock()
	s, err := l.leased(id, delivery)
	if err != nil {
		return err
	}
	s.waiting = waiting
	l.withdraw(s)
	l.times.add(s, now.Add(lease))
	l.update(s.group)
	return nil
}

func (m *memory) Settle(_ context.Context, method string, settlement Settlement) error {
	now := time.Now()
	l := m.open(method)
	defer m.mu.Unlock()
	s, err := l.leased(settlement.ID, settlement.Delivery)
	if err != nil {
		if later := l.sets[settlement.ID]; later != nil && later.delivery > settlement.Delivery {
			later.losses = max(0, later.losses-1)
		}
		return err
	}
	g := s.group
	for _, o := range settlement.Results {
		for _, to := range s.records[o.Record].ReplyTo {
			l.reply(now, to, Reply{Payload: o.Payload, Error: o.Error, result: o.result})
		}
	}
	l.drop(s)
	kept := make([]bool, len(s.records))
	for _, part := range settlement.Parts {
		l.part(now, s, &part, kept)
	}
	for _, i := range settlement.Failed {
		g.failed = append(g.failed, s.records[i])
	}
	if n := len(g.failed) - settlement.MaxFailed; n > 0 {
		g.failed = slices.Delete(g.failed, 0, n)
		g.info.Dropped += int64(n)
	}
	for i, r := range s.records {
		if !kept[i] {
			l.records--
			g.release(r)
			r.ReplyTo = nil
		}
	}
	if settlement.Error != "" {
		g.info.LastError, g.info.LastErrorAt = settlement.Error, now
	}
	l.update(g)
	return nil
}

// part makes one of the sets that replace another one.
func (l *line) part(now time.Time, old *set, part *Part, kept []bool) {
	s := &set{id: part.ID, group: old.group, losses: part.Losses}
	if part.ID == old.id {
		s.delivery = old.delivery
	}
	for _, i := range part.Records {
		kept[i] = true
		s.records = append(s.records, old.records[i])
		if part.Attempt {
			old.records[i].Attempts++
		}
	}
	l.sets[s.id] = s
	s.group.sets++
	s.count(1)
	if part.After > 0 {
		l.times.add(s, now.Add(part.After))
	} else {
		s.group.ready = append(s.group.ready, s)
	}
}

// drop removes a set, not its records.
func (l *line) drop(s *set) {
	l.withdraw(s)
	s.count(-1)
	s.group.sets--
	delete(l.sets, s.id)
}

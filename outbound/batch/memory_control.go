package batch

import (
	"context"
	"maps"
	"slices"
	"time"
)

func (m *memory) Flush(_ context.Context, method string, options ...string) error {
	l := m.open(method)
	defer m.mu.Unlock()
	flush := func(g *group) {
		g.mark = g.newest
		l.update(g)
	}
	for _, option := range options {
		if g := l.groups[option]; g != nil {
			flush(g)
		}
	}
	if len(options) == 0 {
		for len(l.aging) > 0 { // the oldest first: this is the order of their turns
			flush(l.aging[0])
		}
		for _, g := range l.groups {
			flush(g)
		}
	}
	return nil
}

func (m *memory) Pause(_ context.Context, method, option string, paused bool, maxGroups int) error {
	l := m.open(method)
	defer m.mu.Unlock()
	if l.groups[option] == nil && !paused {
		return nil
	}
	g, err := l.group(option, maxGroups)
	if err != nil {
		return err
	}
	g.paused = paused
	l.update(g)
	return nil
}

func (m *memory) Delete(_ context.Context, method, option string) (int, error) {
	now := time.Now()
	l := m.open(method)
	defer m.mu.Unlock()
	g := l.groups[option]
	if g == nil {
		return 0, nil
	}
	n := len(g.failed)
	remove := func(records []*Record) {
		n += len(records)
		l.records -= len(records)
		for _, r := range records {
			for _, to := range r.ReplyTo {
				l.reply(now, to, Reply{Deleted: true})
			}
		}
	}
	remove(g.pending.rest())
	for _, s := range l.sets {
		if s.group == g && (!s.leased || slices.Contains(g.ready, s)) {
			remove(s.records)
			l.drop(s)
		}
	}
	g.pending, g.failed, g.keys, g.paused, g.info.Bytes = queue{}, nil, nil, false, 0
	l.update(g)
	return n, nil
}

func (m *memory) Retry(_ context.Context, method, option string) (int, error) {
	l := m.open(method)
	defer m.mu.Unlock()
	g := l.groups[option]
	if g == nil || len(g.failed) == 0 {
		return 0, nil
	}
	n := len(g.failed)
	for _, r := range g.failed {
		r.Attempts, r.Key = 0, ""
		g.append(r)
	}
	l.records += n
	g.failed, g.mark = nil, g.newest
	l.update(g)
	return n, nil
}

func (m *memory) Groups(_ context.Context, method string, limit int) (Listing, error) {
	l := m.open(method)
	defer m.mu.Unlock()
	listing := Listing{Calls: l.calls.sum(time.Now())}
	for _, g := range l.groups {
		if len(listing.Groups) >= limit {
			break
		}
		listing.Groups = append(listing.Groups, g.describe(method))
	}
	return listing, nil
}

// An inbox has the replies to one process.
type inbox struct {
	replies []Reply
	wake    chan struct{} // has one element if there are replies
	read    time.Time     // the last Receive
}

const inboxLife = 10 * time.Minute

func (l *line) inbox(process string, now time.Time) *inbox {
	box := l.inboxes[process]
	if box == nil {
		maps.DeleteFunc(l.inboxes, func(_ string, other *inbox) bool { return now.Sub(other.read) > inboxLife })
		box = &inbox{wake: make(chan struct{}, 1), read: now}
		l.inboxes[process] = box
	}
	return box
}

func (l *line) reply(now time.Time, to Address, reply Reply) {
	box := l.inbox(to.Process, now)
	reply.Call = to.Call
	box.replies = append(box.replies, reply)
	select {
	case box.wake <- struct{}{}:
	default:
	}
}

func (m *memory) Receive(ctx context.Context, method, process string, wait time.Duration) ([]Reply, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		l := m.open(method)
		box := l.inbox(process, time.Now())
		box.read = time.Now()
		replies := box.replies
		box.replies = nil
		m.mu.Unlock()
		if len(replies) > 0 {
			return replies, nil
		}
		select {
		case <-box.wake:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

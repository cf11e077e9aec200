package batch

import (
	"container/list"
	"slices"
	"time"
)

// A group is one group in memory.
type group struct {
	option  string
	pending queue
	keys    map[string]*Record
	ready   []*set // whose time has come, in this order
	sets    int    // all of them
	failed  []*Record

	newest, mark uint64 // sequence numbers
	aging        timed  // in line.aging: it has pending records, and none is due
	place        *list.Element
	paused       bool
	info         GroupInfo // Bytes, InFlight, Retrying, Dropped, LastCall, LastError, LastErrorAt
}

func (g *group) timer() *timed { return &g.aging }

func (g *group) marked() bool { return g.pending.len() > 0 && g.pending.first().sequence <= g.mark }

func (g *group) due() bool { return len(g.ready) > 0 || g.marked() }

// A set is a batch in memory.
type set struct {
	id       string
	delivery int
	group    *group
	records  []*Record
	leased   bool
	waiting  bool // its lease is not for a call yet
	losses   int
	until    timed // in line.times, or of no meaning while it is in group.ready
}

func (s *set) timer() *timed { return &s.until }

// count adds the records of the set to the figures of its group, or removes them.
func (s *set) count(sign int) {
	if s.leased {
		s.group.info.InFlight += sign * len(s.records)
	} else {
		s.group.info.Retrying += sign * len(s.records)
	}
}

// take moves the oldest pending records into a new set.
func (g *group) take(terms *Terms) *set {
	n, bytes := 0, 0
	for n < min(terms.MaxRecords, g.pending.len()) {
		bytes += g.pending.at(n).Size
		if n > 0 && terms.MaxBytes > 0 && bytes > terms.MaxBytes {
			break
		}
		n++
	}
	s := &set{id: terms.ID, group: g, records: g.pending.take(n)}
	for _, r := range s.records {
		g.info.Bytes -= int64(r.Size)
		r.pending = false
		if !r.UntilDone {
			g.release(r)
		}
	}
	return s
}

// release gives the key of a record up, if it holds one.
func (g *group) release(r *Record) {
	if r.Key != "" && g.keys[r.Key] == r {
		delete(g.keys, r.Key)
	}
}

// append adds a pending record.
func (g *group) append(r *Record) {
	g.newest++
	r.sequence, r.pending = g.newest, true
	g.pending.push(r)
	g.info.Bytes += int64(r.Size)
	if r.Key != "" {
		if g.keys == nil {
			g.keys = map[string]*Record{}
		}
		g.keys[r.Key] = r
	}
}

// replace gives the record that holds a key the payload and addresses of a later one.
func (g *group) replace(holder, r *Record) {
	holder.ReplyTo = slices.Concat(holder.ReplyTo, r.ReplyTo)
	if holder.pending {
		g.info.Bytes += int64(r.Size - holder.Size)
		holder.Payload, holder.Size, holder.value = r.Payload, r.Size, r.value
	}
}

// describe returns the state of the group for a page.
func (g *group) describe(method string) GroupInfo {
	info := g.info
	info.Method, info.Option = method, g.option
	info.Pending, info.Unique, info.Failed = g.pending.len(), len(g.keys), len(g.failed)
	info.Paused, info.Due = g.paused, g.due()
	if g.pending.len() > 0 {
		info.Oldest = g.pending.first().Added
	}
	return info
}

// A queue is a list of records that are taken from its front.
type queue struct {
	records []*Record
	head    int
}

func (q *queue) len() int         { return len(q.records) - q.head }
func (q *queue) at(i int) *Record { return q.records[q.head+i] }
func (q *queue) first() *Record   { return q.records[q.head] }
func (q *queue) push(r *Record)   { q.records = append(q.records, r) }
func (q *queue) rest() []*Record  { return q.records[q.head:] }

// take removes and returns the first n records.
func (q *queue) take(n int) []*Record {
	taken := slices.Clone(q.records[q.head : q.head+n])
	clear(q.records[q.head : q.head+n])
	q.head += n
	if q.head > len(q.records)/2 { // moving the rest costs less than was taken
		q.records, q.head = append([]*Record(nil), q.rest()...), 0
	}
	return taken
}

// clock counts events of about the last minute.
type clock [13]struct {
	slot int64 // of 5 seconds
	n    int
}

const slotLength = 5 * time.Second

func (c *clock) count(now time.Time) {
	slot := now.UnixNano() / int64(slotLength)
	e := &c[slot%int64(len(c))]
	if e.slot != slot {
		e.slot, e.n = slot, 0
	}
	e.n++
}

func (c *clock) sum(now time.Time) (n int) {
	slot := now.UnixNano() / int64(slotLength)
	for _, e := range c {
		if e.slot > slot-int64(len(c)) {
			n += e.n
		}
	}
	return n
}

package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/limits"
)

//nolint:gochecknoglobals // constants
var (
	_          gatestore.Store = (*Store)(nil)
	gateScript                 = sync.OnceValue(func() *script { return newScript(read("now.lua", "names.lua", "gate.lua")) })
)

// gateTimeout is the shortest timeout for a request of a gate: its calls wait anyway, and a connection may have to be made.
const gateTimeout = time.Second

// OpenGate returns the state of a gate by its name. gate.New calls it.
func (s *Store) OpenGate(name string) (gatestore.Table, error) {
	if s.closed.Load() {
		return nil, limits.ErrClosed
	}
	return &gateTable{s, s.cfg.prefix() + ":{gate" + escape(name, "", false) + "}"}, nil
}

// A gateTable gives access to the state of a vendor, all of which is in the server.
type gateTable struct {
	store *Store
	name  string // the name of the vendor's value, and the prefix of the names of its keys
}

func (t *gateTable) key(k gatestore.Key) string {
	if k.Vendor {
		return t.name
	}
	return t.name + escape(k.Limit, "", false) + escape(k.Key, ":@/+,;|~ ", t.store.cfg.HashKeys)
}

// keys are the names of the values that a command uses, that of the vendor first.
type keys struct {
	table *gateTable
	names []any
}

func (t *gateTable) keys(of ...gatestore.Key) *keys {
	k := &keys{t, []any{t.name}}
	for _, key := range of {
		k.index(key)
	}
	return k
}

// index returns the number of a key in the script, as text.
func (k *keys) index(of gatestore.Key) string {
	name := any(k.table.key(of))
	i := slices.Index(k.names, name)
	if i < 0 {
		i = len(k.names)
		k.names = append(k.names, name)
	}
	return number(int64(i + 1))
}

// run runs the script, and sends it once: without a reply, it is not known what the script did. If the reply has fewer integers than least,
// it is an error.
func (k *keys) run(ctx context.Context, least int, op string, args ...any) ([]int64, error) {
	s, script := k.table.store, gateScript()
	s.ending.RLock()
	defer s.ending.RUnlock()
	if s.closed.Load() {
		return nil, limits.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, max(s.cfg.timeout(), gateTimeout))
	defer cancel()
	var cmd *call
	at := s.nodeOf(k.table.name)
	send := func(text bool) error {
		return at.conns.Do(ctx, at.processor(), func() error {
			cmd = newCall(script, text, len(k.names), 2+len(args))
			cmd.finish(ctx, append(append(append(cmd.args, k.names...), s.time(), op), args...), true)
			return s.client.Process(ctx, cmd)
		})
	}
	err := send(false)
	if isNoScript(err) {
		err = send(true)
	}
	reply := cmd.list()
	switch {
	case err != nil:
		return nil, explain(err, cmd.keys.written)
	case len(reply) < least:
		return nil, errReply
	}
	return reply, nil
}

func stateOf(reply []int64) gatestore.State {
	return gatestore.State{InFlight: int(reply[0]), MaxInFlight: int(reply[1]), Processes: int(reply[2])}
}

func usec(d time.Duration) string {
	return number(int64((d + time.Microsecond - 1) / time.Microsecond)) // rounded up
}

func bit(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// Pass has the script decide about calls.
func (t *gateTable) Pass(ctx context.Context, ask gatestore.Ask) (g gatestore.Grant, err error) {
	mode := string(ask.Mode)
	if ask.Late {
		mode = "late"
	}
	args := []any{ask.Process, number(int64(ask.InFlight)), usec(ask.RoundTrip), usec(ask.Ahead), mode, bit(ask.NoWait)}
	k := t.keys()
	for _, of := range ask.Groups {
		args = append(args, number(int64(of.Calls)), bit(of.Background), number(int64(of.ID)), number(int64(len(of.Draws))))
		for _, d := range of.Draws {
			args = append(args, k.index(d.Key), usec(d.Spacing), usec(d.Lead), usec(d.Unit), number(int64(d.Generation)))
		}
	}
	const head, answer, slot = 3, 4, 5
	reply, err := k.run(ctx, head, "pass", args...)
	if err != nil {
		return g, err
	}
	g.State, reply = stateOf(reply), reply[head:]
	for _, of := range ask.Groups {
		width := slot + 2*len(of.Draws)
		if len(reply) < answer || len(reply) < answer+width*int(reply[0]) {
			return g, errReply
		}
		n := width * int(reply[0])
		a := gatestore.Answer{
			Draw: max(0, int(reply[1])-1), Again: time.Duration(reply[2]) * time.Microsecond,
			Held: reply[3] == 2, Poll: reply[3] == 3, Soon: reply[3] == 4, Yield: reply[3] == 5,
		}
		for r := range slices.Chunk(reply[answer:answer+n], width) {
			s := gatestore.Slot{ID: uint64(r[0]), Turn: r[2] == 1, Probe: r[3] == 1, Time: uint64(r[4])}
			s.At = time.Duration(r[1]) * time.Microsecond
			for i := slot; i < width; i += 2 {
				s.Generations, s.Marks = append(s.Generations, uint64(r[i])), append(s.Marks, uint64(r[i+1]))
			}
			a.Slots = append(a.Slots, s)
		}
		g.Answers, reply = append(g.Answers, a), reply[answer+n:]
	}
	return g, nil
}

// Report has the script begin holds, end places and turns, take back slots, and renew leases.
func (t *gateTable) Report(ctx context.Context, r gatestore.Report) (gatestore.State, []gatestore.Hold, error) {
	k := t.keys()
	args := []any{r.Process, bit(r.Leave), number(int64(len(r.Holds)))}
	for _, h := range r.Holds {
		halve := bit(h.Halve)
		if h.Busy {
			halve = "2"
		}
		args = append(args, k.index(h.Key), usec(h.For), number(int64(h.Generation)), halve)
	}
	args = append(args, number(int64(len(r.Ends))))
	for _, e := range r.Ends {
		n := len(e.Of.Generations)
		args = append(args, number(int64(e.Of.ID)), number(int64(e.Of.Time)), bit(e.Turn), bit(e.Place), bit(e.Success), number(int64(n)))
		for i, d := range e.Draws[:n] {
			mark, cost, most := uint64(0), number(-1), number(0)
			if i < len(e.Of.Marks) {
				mark = e.Of.Marks[i]
			}
			if i < len(e.Settled) {
				cost, most = usec(e.Settled[i].Cost), usec(e.Settled[i].Most)
			}
			gen := number(int64(e.Of.Generations[i]))
			args = append(args, k.index(d.Key), gen, usec(d.Spacing), usec(d.Unit), number(int64(mark)), cost, most)
		}
	}
	for _, id := range r.Renew {
		args = append(args, number(int64(id)))
	}
	const head = 3
	reply, err := k.run(ctx, head+len(r.Holds), "report", args...)
	if err != nil {
		return gatestore.State{}, nil, err
	}
	inForce := slices.Clone(r.Holds)
	for i := range inForce {
		inForce[i].For = time.Duration(reply[head+i]) * time.Microsecond
	}
	return stateOf(reply), inForce, nil
}

// Resume has the script end holds.
func (t *gateTable) Resume(ctx context.Context, of []gatestore.Key) error {
	_, err := t.keys(of...).run(ctx, 1, "resume", bit(len(of) == 0))
	return err
}

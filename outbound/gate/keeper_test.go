package gate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/outbound/gate"
)

// A fake is a Store in memory that does what gate.lua does. It is the state of one vendor.
type fake struct {
	half time.Duration        // of a round trip
	now  func() time.Duration // the clock
	err  atomic.Pointer[error]

	mu      sync.Mutex
	log     []string // the operations
	keys    map[gatestore.Key]*fakeKey
	seq     uint64
	places  map[uint64]time.Duration // the ends of leases
	freed   time.Duration
	procs   map[string]time.Duration // when they were seen
	wait    []*fakeWait
	lim     int
	most    int
	won     int
	soon    bool
	resumed time.Duration
}

type fakeKey struct {
	gen, prev        uint64
	till, over, tail time.Duration
	room             int
	out              []fakeTurn
}

type (
	fakeTurn struct {
		id  uint64
		end time.Duration
	}
	fakeWait struct {
		name        string
		since, last time.Duration
	}
)

func newFake(half time.Duration) *fake {
	begun := time.Now()
	return &fake{
		half: half, now: func() time.Duration { return time.Hour + time.Since(begun) }, keys: map[gatestore.Key]*fakeKey{},
		places: map[uint64]time.Duration{}, procs: map[string]time.Duration{},
	}
}

func (f *fake) OpenGate(string) (gatestore.Table, error) { return f, nil }

// begin is the way to the store, and the work that is done by each script. done is the way back.
func (f *fake) begin(op string) (now time.Duration, done func(), err error) {
	time.Sleep(f.half)
	if e := f.err.Load(); e != nil {
		return 0, func() {}, *e
	}
	f.mu.Lock()
	now = f.now()
	f.log = append(f.log, op)
	for _, s := range f.keys {
		if s.room > 0 && now >= s.till {
			for len(s.out) > 0 && s.out[0].end <= now {
				if _, ok := f.places[s.out[0].id]; ok {
					delete(f.places, s.out[0].id)
					f.freed = now
				}
				if s.out = s.out[1:]; s.room == 1 {
					s.over = now + 10*time.Second
				}
			}
			if s.room >= 64 || now >= s.over && (s.room > 1 || len(s.out) == 0) {
				s.room, s.out = 0, nil
			}
		}
	}
	maps.DeleteFunc(f.places, func(_ uint64, end time.Duration) bool { return end <= now })
	maps.DeleteFunc(f.procs, func(_ string, at time.Duration) bool { return at+10*time.Second <= now })
	f.wait = slices.DeleteFunc(f.wait, func(w *fakeWait) bool { return w.last+200*time.Millisecond <= now })
	return now, func() {
		f.mu.Unlock()
		time.Sleep(f.half)
	}, nil
}

func (f *fake) key(k gatestore.Key) *fakeKey {
	if f.keys[k] == nil {
		f.keys[k] = &fakeKey{}
	}
	return f.keys[k]
}

func (f *fake) state() gatestore.State {
	return gatestore.State{Processes: len(f.procs), InFlight: len(f.places), MaxInFlight: f.lim}
}

func poll(since time.Duration) time.Duration {
	return min(max(since/2, 50*time.Millisecond), 500*time.Millisecond)
}

func (f *fake) Pass(_ context.Context, a gatestore.Ask) (g gatestore.Grant, err error) {
	now, done, err := f.begin("pass")
	if err != nil {
		return g, err
	}
	defer done()
	if a.InFlight != f.most {
		if f.lim == f.most || f.lim > a.InFlight {
			f.lim = a.InFlight
		}
		f.most = a.InFlight
	}
	for len(g.Slots) < a.Calls {
		if a.Mode != gatestore.Reserve && (f.shut(&g, a, now) || a.InFlight > 0 && f.full(&g, a, now)) {
			break
		}
		if !f.grant(&g, a, now) {
			break
		}
	}
	if len(g.Slots) > 0 {
		f.procs[a.Process] = now
	}
	g.State = f.state()
	return g, nil
}

func (s *fakeKey) find(id uint64) int {
	return slices.IndexFunc(s.out, func(t fakeTurn) bool { return t.id == id })
}

func (f *fake) shut(g *gatestore.Grant, a gatestore.Ask, now time.Duration) bool {
	for i, d := range a.Draws {
		switch s := f.key(d.Key); {
		case now < s.till:
			g.Again, g.Draw, g.Held, g.Generation = s.till-now, i, true, s.gen
			return true
		case a.Mode == gatestore.Again && s.gen != d.Generation:
			g.Again, g.Draw = time.Microsecond, i
			return true
		case s.room > 0 && (a.Mode == gatestore.Again && s.find(a.ID) < 0 || a.Mode == gatestore.Pass && len(s.out) >= s.room):
			g.Again, g.Poll = time.Millisecond, true
			if n := len(s.out); n > 0 {
				g.Again = min(poll(now-s.out[n-1].end+10*time.Second), max(s.out[0].end-now, time.Millisecond))
			}
			return true
		}
	}
	return false
}

func (f *fake) full(g *gatestore.Grant, a gatestore.Ask, now time.Duration) bool {
	if a.Mode == gatestore.Again {
		_, ok := f.places[a.ID]
		g.Again, g.Poll = time.Microsecond, true
		return !ok
	}
	var mine *fakeWait
	if i := slices.IndexFunc(f.wait, func(w *fakeWait) bool { return w.name == a.Process }); i >= 0 {
		mine = f.wait[i]
	}
	used := len(f.places)
	for _, w := range f.wait {
		if w != mine && (mine == nil || w.since < mine.since) {
			used++
		}
	}
	if used < f.lim {
		return false
	}
	if mine == nil {
		mine = &fakeWait{a.Process, now, now}
		f.wait = append(f.wait, mine)
	}
	mine.last = now
	g.Again, g.Poll = poll(now-f.freed), true
	for _, end := range f.places {
		g.Again = max(time.Millisecond, min(g.Again, end-now))
	}
	return true
}

func (f *fake) grant(g *gatestore.Grant, a gatestore.Ask, now time.Duration) bool {
	at, last := now, 0
	for _, d := range a.Draws {
		if d.Spacing > 0 {
			at = now + a.RoundTrip
		}
	}
	least := at
	for i, d := range a.Draws {
		s := f.key(d.Key)
		if a.Mode == gatestore.Reserve {
			at = max(at, s.till)
		}
		if d.Spacing > 0 && s.tail-d.Lead > at {
			at, last = s.tail-d.Lead, i
		}
	}
	if a.Mode != gatestore.Again && at > now+a.Ahead {
		g.Again, g.Draw = at-now, last
		return false
	}
	slot := gatestore.Slot{ID: a.ID, At: at - now}
	if a.Mode != gatestore.Again {
		f.seq++
		slot.ID = f.seq
	}
	for _, d := range a.Draws {
		s := f.key(d.Key)
		taken := d.Spacing > 0 && (a.Mode != gatestore.Reserve || at-max(least, s.till, s.tail-d.Lead) < 12500*time.Microsecond)
		if taken {
			s.tail = max(s.tail, at) + d.Spacing
		}
		if s.room > 0 && a.Mode != gatestore.Reserve {
			if slot.Turn = true; a.Mode == gatestore.Pass {
				slot.Probe = slot.Probe || s.room == 1
				s.out = append(s.out, fakeTurn{slot.ID, now + 10*time.Second})
			}
		}
		slot.Generations, slot.Taken = append(slot.Generations, s.gen), append(slot.Taken, taken)
	}
	if a.InFlight > 0 && a.Mode != gatestore.Reserve {
		f.places[slot.ID] = now + 10*time.Second
		if a.Mode == gatestore.Pass {
			f.wait = slices.DeleteFunc(f.wait, func(w *fakeWait) bool { return w.name == a.Process })
		}
	}
	g.Slots = append(g.Slots, slot)
	return true
}

func (f *fake) End(_ context.Context, ends []gatestore.End) (state gatestore.State, err error) {
	now, done, err := f.begin("end")
	if err != nil {
		return state, err
	}
	defer done()
	for _, e := range ends {
		fresh := true
		for i, k := range e.Keys {
			s := f.key(k)
			fresh = fresh && s.gen == e.Generations[i]
			if at := s.find(e.ID); e.Turn && at >= 0 {
				if s.out = slices.Delete(s.out, at, at+1); e.Success {
					s.room++
				}
			}
		}
		if _, ok := f.places[e.ID]; e.Place && ok {
			f.freed = now
			if delete(f.places, e.ID); e.Success && fresh {
				f.grow()
			}
		}
	}
	return f.state(), nil
}

func (f *fake) grow() {
	rounds, step := 16, 1
	if f.soon {
		rounds, step = 1, max(1, f.lim/16)
	}
	if f.won++; f.won >= rounds*f.lim && f.lim < f.most {
		f.lim, f.won = min(f.most, f.lim+step), 0
	}
}

func (f *fake) Hold(_ context.Context, holds []gatestore.Hold) ([]gatestore.Hold, error) {
	now, done, err := f.begin("hold")
	if err != nil {
		return nil, err
	}
	defer done()
	holds = slices.Clone(holds)
	for i, h := range holds {
		s, till := f.key(h.Key), now+h.For
		force := now < s.till
		if int64(h.Generation) < 0 || s.gen == 0 || h.Generation == s.gen || force && h.Generation == s.prev {
			if !force {
				s.prev, s.gen, s.till, s.room, s.out = s.gen, max(s.gen+1, uint64(now/time.Microsecond)), till, 1, nil
				if h.Halve && now > f.resumed {
					f.soon = now-f.resumed >= 10*time.Second || len(f.places) <= f.lim/2
					if f.lim > 0 {
						f.lim, f.won = max(1, f.lim/2), 0
					}
					f.resumed = till
				}
			}
			if till >= s.till {
				s.till, s.over = till, till+10*time.Second
			}
		}
		holds[i].Generation, holds[i].For = s.gen, max(0, s.till-now)
	}
	return holds, nil
}

func (f *fake) Resume(_ context.Context, keys []gatestore.Key) error {
	now, done, err := f.begin("resume")
	if err != nil {
		return err
	}
	defer done()
	for _, k := range keys {
		if s := f.key(k); now < s.till {
			s.till, s.over, f.resumed = now, now+10*time.Second, now
		}
	}
	return nil
}

func (f *fake) Renew(_ context.Context, process string, ids []uint64) (state gatestore.State, err error) {
	now, done, err := f.begin("renew")
	if err != nil {
		return state, err
	}
	defer done()
	f.procs[process] = now
	for _, id := range ids {
		if _, ok := f.places[id]; ok {
			f.places[id] = now + 10*time.Second
		}
	}
	return f.state(), nil
}

func (f *fake) Leave(_ context.Context, process string) error {
	_, done, err := f.begin("leave")
	if err != nil {
		return err
	}
	defer done()
	delete(f.procs, process)
	return nil
}

// A process is what one process has of a fake.
type process struct {
	*fake
	dead atomic.Bool
}

func (p *process) OpenGate(string) (gatestore.Table, error) { return p, nil }

func (p *process) Pass(ctx context.Context, ask gatestore.Ask) (gatestore.Grant, error) {
	if p.dead.Load() {
		<-ctx.Done()
	}
	return p.fake.Pass(ctx, ask)
}

func (p *process) End(ctx context.Context, ends []gatestore.End) (gatestore.State, error) {
	if p.dead.Load() {
		return gatestore.State{}, errDown
	}
	return p.fake.End(ctx, ends)
}

func (p *process) Renew(ctx context.Context, process string, ids []uint64) (gatestore.State, error) {
	if p.dead.Load() {
		return gatestore.State{}, errDown
	}
	return p.fake.Renew(ctx, process, ids)
}

// gates returns gates that share a store.
func (f *fake) gates(t *testing.T, n int, cfg gate.Config) (all []*gate.Gate, each []*process) {
	t.Helper()
	for i := range n {
		p := &process{fake: f}
		cfg.Name, cfg.Store = fmt.Sprint("process ", i), p
		all, each = append(all, core.Must(gate.New(cfg))), append(each, p)
	}
	return all, each
}

func closeAll(gates []*gate.Gate) {
	for _, g := range gates {
		_ = g.Close(context.Background())
	}
}

func (f *fake) fail(err error) {
	if err == nil {
		f.err.Store(nil)
	} else {
		f.err.Store(&err)
	}
}

var errDown = errors.New("connection refused")

// While the Store is unavailable, a process sends its share for 10 seconds, and then nothing until it answers.
func TestStoreUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  gate.Config
		from [6]int // calls in 5 seconds, at least
		to   [6]int // and at most
	}{
		{
			gate.Config{Limits: []gate.Limit{{N: 100, Per: time.Second}}},
			[6]int{470, 440, 440, 0, 0, 440},
			[6]int{480, 480, 480, 0, 0, 480},
		},
		{
			gate.Config{Limits: []gate.Limit{{N: 100, Per: time.Second}}, AllowOnStoreError: true},
			[6]int{470, 1800, 1800, 1800, 1800, 470},
			[6]int{480, 1920, 1920, 1920, 1920, 550},
		},
		{
			gate.Config{InFlight: 9}, // two places for each of four processes
			[6]int{410, 380, 380, 0, 0, 360},
			[6]int{450, 410, 410, 10, 0, 460},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(time.Millisecond)
			gates, _ := f.gates(t, 4, c.cfg)
			defer closeAll(gates)
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			go func() {
				time.Sleep(5 * time.Second)
				f.fail(errDown)
				time.Sleep(20 * time.Second)
				f.fail(nil)
				time.Sleep(5 * time.Second)
				cancel()
			}()
			var sent counter
			loop(ctx, t, gates, 10, func(int) { sent.call(100 * time.Millisecond) })
			var per [6]int
			for _, at := range sent.begun {
				per[min(5, int(at.Sub(begun)/(5*time.Second)))]++
			}
			for i, n := range per {
				require.LessOrEqual(t, c.from[i], n, "%v", per)
				require.GreaterOrEqual(t, c.to[i], n, "%v", per)
			}
			if !c.cfg.AllowOnStoreError && c.cfg.InFlight == 0 {
				require.LessOrEqual(t, most(sent.begun, nil, time.Second), int64(100))
			}
			if c.cfg.InFlight > 0 {
				require.LessOrEqual(t, sent.most, c.cfg.InFlight)
			}
		})
	}
}

// A killed process gives its place back with its lease, and the turn of its probe after 10 seconds.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]bool{"place": false, "probe": true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(time.Millisecond)
			cfg := gate.Config{}
			if !hold {
				cfg.InFlight = 1
			}
			gates, each := f.gates(t, 4, cfg)
			defer closeAll(gates)
			var c counter
			var refused atomic.Bool
			over := make(chan struct{})
			var wg sync.WaitGroup
			for i, g := range gates {
				wg.Go(func() {
					require.NoError(t, g.Do(t.Context(), gate.Call{}, func(context.Context) error {
						if hold && !refused.Swap(true) {
							return limited{time.Second}
						}
						c.mu.Lock()
						first := len(c.begun) == 0
						c.mu.Unlock()
						if first {
							time.AfterFunc(0, func() { each[i].dead.Store(true) })
						}
						c.call(0)
						if first {
							<-over
						} else {
							time.Sleep(100 * time.Millisecond)
						}
						return nil
					}))
				})
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(30 * time.Second)
			close(over)
			wg.Wait()
			require.Len(t, c.begun, 4, name)
			wait := c.begun[1].Sub(c.begun[0])
			require.GreaterOrEqual(t, wait, 10*time.Second, name)
			require.LessOrEqual(t, wait, 11*time.Second, name)
			require.GreaterOrEqual(t, c.begun[2].Sub(c.begun[1]), 100*time.Millisecond, name)
		})
	}
}

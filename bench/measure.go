package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Plan says how long to measure.
type Plan struct {
	Rounds  int           // how often each subject is made anew and measured
	Turns   int           // how often then
	Turn    time.Duration // how long a turn is
	Samples int           // how often, in a row with units
}

// Full takes minutes.
func Full() Plan { return Plan{Rounds: 5, Turns: 6, Turn: 10 * time.Millisecond, Samples: 5} }

// Quick takes half a minute.
func Quick() Plan { return Plan{Rounds: 2, Turns: 4, Turn: 4 * time.Millisecond, Samples: 3} }

// A Measurement has the typical figures of one subject in one row. In a row with units, CPU
// has a value for each, and the others are empty.
type Measurement struct {
	Subject
	CPU    []float64 // nanoseconds of processor time per operation
	Wall   float64   // nanoseconds that passed per operation, of all goroutines together
	Allocs float64
	// Crowded reports whether most turns, or samples, did without a processor for each
	// goroutine, as other processes had them.
	Crowded bool
	// Disturbed reports, for each value of CPU, whether it can be wrong by much: it is
	// Crowded, or the middle half of its samples differ by more than a factor of two.
	Disturbed []bool
}

// Measure lets the subjects of a row have their turns, in another order each round.
// It is an error if an operation comes out wrong.
//
// Only one subject exists at a time: its garbage collections find its own memory, not
// that of the others. They run at 16 MiB, not at the 4 MiB of a small process, where
// their fixed cost would be most of the figure.
func Measure(r Row, p Plan) ([]Measurement, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if r.Units != nil {
		return sample(r, p)
	}
	keys := r.keys()
	runners := make([]runner, len(r.Subjects))
	for range p.Rounds {
		for _, i := range rand.Perm(len(runners)) {
			if err := runners[i].round(r, r.Subjects[i], keys, p); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", r.Name, r.Subjects[i].Name, err)
			}
		}
	}
	measured := make([]Measurement, len(runners))
	for i := range runners {
		measured[i] = runners[i].measured(r.Subjects[i], r.goroutines())
	}
	return measured, nil
}

var errOutcome = errors.New("an operation came out wrong")

// sample measures a row with units.
func sample(r Row, p Plan) ([]Measurement, error) {
	values := make([][][]float64, len(r.Subjects))
	turns := make([][]turn, len(r.Subjects))
	for i := range values {
		values[i] = make([][]float64, len(r.Units))
	}
	for range p.Samples {
		for _, i := range rand.Perm(len(r.Subjects)) {
			begin := time.Now()
			cpu, aside := usage()
			got, err := r.Subjects[i].Sample()
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", r.Name, r.Subjects[i].Name, err)
			}
			used, put := usage()
			turns[i] = append(turns[i], turn{cpu: float64(used - cpu), wall: float64(time.Since(begin)), aside: put - aside})
			for u, v := range got {
				values[i][u] = append(values[i][u], v)
			}
		}
	}
	measured := make([]Measurement, len(r.Subjects))
	for i, s := range r.Subjects {
		measured[i].Subject = s
		measured[i].Crowded = crowded(turns[i], 1)
		for u, v := range values[i] {
			measured[i].Disturbed = append(measured[i].Disturbed, measured[i].Crowded || !r.Units[u].Least && differ(v))
			value := typical(v)
			if r.Units[u].Least {
				value = slices.Min(v)
			}
			measured[i].CPU = append(measured[i].CPU, value)
		}
	}
	return measured, nil
}

// A runner gives one subject its turns.
type runner struct {
	ops   []Op  // one for each goroutine
	next  []int // the key that its next operation is about
	keys  []string
	n     int // operations of a turn, for each goroutine
	wrong atomic.Bool
	turns []turn
}

// A turn has the figures of one turn: nanoseconds and allocations of an operation, and
// how often it was put aside for another process.
type turn struct {
	cpu, wall, allocs float64
	aside             int64
}

// had reports whether so many goroutines had a processor each: they were not put aside,
// though they may have waited for each other, or used most of the time that passed.
func (u turn) had(goroutines int) bool {
	return u.aside == 0 || u.cpu >= 0.8*float64(goroutines)*u.wall
}

// crowded reports whether so many goroutines had a processor each in less than half of
// the turns.
func crowded(turns []turn, goroutines int) bool {
	had := 0
	for _, u := range turns {
		if u.had(goroutines) {
			had++
		}
	}
	return 2*had < len(turns)
}

// differ reports whether the middle half of the values differ by more than a factor of
// two. It sorts them.
func differ(values []float64) bool {
	half := middle(values)
	return len(half) > 0 && half[len(half)-1] > 2*half[0]
}

// round makes the subject, gives it some turns, and lets it go.
func (t *runner) round(r Row, s Subject, keys []string, p Plan) error {
	runtime.GC() // the last one goes
	w := s.Make()
	if w.Close != nil {
		defer w.Close()
	}
	goroutines := r.goroutines()
	t.keys, t.ops, t.next = keys, nil, nil
	for g := range goroutines {
		t.ops = append(t.ops, w.New())
		t.next = append(t.next, g*len(keys)/goroutines)
	}
	for _, key := range keys { // so that all keys exist, and limits that refuse are used up
		t.ops[0](key)
	}
	if t.n == 0 {
		t.calibrate(p.Turn)
	}
	runtime.GC()
	for range p.Turns {
		t.turn()
		if goroutines > 1 && !t.turns[len(t.turns)-1].had(goroutines) {
			t.turn() // once more, with contention
		}
	}
	t.ops = nil
	if t.wrong.Load() {
		return errOutcome
	}
	return nil
}

// calibrate finds out how many operations a turn has, by the fastest of some short
// ones: another process may have had the processor in any of them.
func (t *runner) calibrate(d time.Duration) {
	each := math.Inf(1)
	for t.n = 1; !t.wrong.Load() && (each*float64(t.n) < float64(d)/4 || t.n < 8); t.n *= 2 {
		each = min(each, t.run().wall/float64(t.n))
	}
	t.n = max(1, int(float64(d)/each))
}

func (t *runner) turn() {
	t.loop(0, t.n/8) // the caches are someone else's
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u := t.run()
	runtime.ReadMemStats(&after)
	all := float64(t.n * len(t.ops))
	u.cpu, u.wall, u.allocs = u.cpu/all, u.wall/all, float64(after.Mallocs-before.Mallocs)/all
	t.turns = append(t.turns, u)
}

// run does the operations of a turn and returns their time, all together. Its
// goroutines wait for each other, so that they run at the same time.
func (t *runner) run() (u turn) {
	var (
		all     sync.WaitGroup
		arrived atomic.Int32
	)
	others := t.ops[1:]
	for g := range others {
		all.Go(func() {
			arrived.Add(1)
			for spins := 0; int(arrived.Load()) <= len(others); { // to keep its processor
				spins++
			}
			t.loop(g+1, t.n)
		})
	}
	for int(arrived.Load()) < len(others) {
		runtime.Gosched()
	}
	begin := time.Now()
	cpu, aside := usage()
	arrived.Add(1)
	t.loop(0, t.n)
	all.Wait()
	u.wall = float64(time.Since(begin))
	used, put := usage()
	u.cpu, u.aside = float64(used-cpu), put-aside
	return u
}

// loop does n operations in goroutine g, which goes on where it has ended before.
func (t *runner) loop(g, n int) {
	op, keys, i := t.ops[g], t.keys, t.next[g]
	for range n {
		if !op(keys[i&(len(keys)-1)]) {
			t.wrong.Store(true)
			return
		}
		i++
	}
	t.next[g] = i
}

// measured returns the typical figures of the undisturbed turns, or of the better half
// if most turns were disturbed.
func (t *runner) measured(s Subject, goroutines int) Measurement {
	turns := slices.Clone(t.turns)
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.aside, b.aside) })
	undisturbed := slices.DeleteFunc(slices.Clone(turns), func(u turn) bool { return !u.had(goroutines) })
	few := crowded(turns, goroutines)
	if turns = turns[:(len(turns)+1)/2]; !few {
		turns = undisturbed
	}
	values := func(of func(turn) float64) float64 {
		var v []float64
		for _, u := range turns {
			v = append(v, of(u))
		}
		return typical(v)
	}
	return Measurement{
		Subject: s,
		CPU:     []float64{values(func(u turn) float64 { return u.cpu })},
		Wall:    values(func(u turn) float64 { return u.wall }),
		Allocs:  values(func(u turn) float64 { return u.allocs }),
		Crowded: few, Disturbed: []bool{few},
	}
}

// typical is the mean of the middle half of the values, or 0 if there is none. Of three
// it is the median. A median of many jumps where the garbage collector is at work in
// about half of the turns. It sorts them.
func typical(values []float64) float64 {
	half := middle(values)
	sum := 0.0
	for _, v := range half {
		sum += v
	}
	return sum / float64(max(1, len(half)))
}

// middle is the middle half of the values. It sorts them.
func middle(values []float64) []float64 {
	slices.Sort(values)
	drop := (len(values) + 1) / 4
	return values[drop : len(values)-drop]
}

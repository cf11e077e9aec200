package bench

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"time"
)

// A Role is the part of a subject in the comparison.
type Role uint8

// Ours is this module, a Peer another library, and a Floor code that does no more
// than the work cannot do without.
const (
	Ours Role = iota
	Peer
	Floor
)

// An Op does the work of a row once, and reports whether the result is right.
// The key is one of the row's.
type Op func(key string) bool

// Work is a subject that is ready to be measured.
type Work struct {
	// New makes the operation of one goroutine.
	New func() Op
	// Close, if not nil, releases the subject's resources.
	Close func()
}

// A Subject is one way to do the work of a row.
type Subject struct {
	Name string
	Role Role
	// Note, if not empty, says in what its work differs from ours. Such a peer is
	// shown, and never the best one.
	Note string
	// Make begins the measurement of a row in nanoseconds.
	Make func() Work
	// Sample is one measurement of a row with units: a value for each.
	Sample func() ([]float64, error)
}

// A Unit replaces nanoseconds per operation as the unit of a row.
type Unit struct {
	Name   string
	Higher bool // the higher the better
	Least  bool // noise can only add to it: the least of all samples counts, not the typical one
}

// A Row is work, and all who do it. Its floor is the first subject that is one.
type Row struct {
	Name     string
	Keys     int                // how many keys there are; 1 if zero
	Key      func(i int) string // its text; an address if nil
	Parallel bool               // by as many goroutines as there are processors
	Slow     bool               // left out when it has to be quick
	Units    []Unit
	Subjects []Subject
}

// Sizes are the numbers in the names of the rows. Tests make them small.
type Sizes struct {
	Many    int           // keys, where they say 100,000
	Million int           // keys, where they say 1,000,000
	Upload  int64         // bytes, where they say 64 MiB
	Load    time.Duration // how long a server is loaded for a sample
}

// Nominal is as the names say.
func Nominal() Sizes {
	return Sizes{Many: 100_000, Million: 1_000_000, Upload: 64 << 20, Load: 500 * time.Millisecond}
}

// Rows returns all rows, with the floors first.
func Rows(s Sizes) []Row {
	var rows []Row
	for _, subject := range []func(Sizes) []Row{floorRows, limiterRows, memoryRows, breakerRows, bulkheadRows, retryRows, composeRows, serverRows, clientRows, outboundRows, loopbackRows} {
		rows = append(rows, subject(s)...)
	}
	return rows
}

// goroutines is how many do the work at a time.
func (r Row) goroutines() int {
	if r.Parallel {
		return runtime.GOMAXPROCS(0)
	}
	return 1
}

// own is what an operation counts for itself. It is as large as two cache lines, so
// that goroutines which count are not in each other's way.
type own struct {
	n, before int
	_         [112]byte
}

// work is for a subject whose operation has nothing of its own for each goroutine.
func work(op Op) Work { return Work{New: func() Op { return op }} }

func ours(name string, f func() Work) Subject { return Subject{Name: name, Role: Ours, Make: f} }
func peer(name string, f func() Work) Subject { return Subject{Name: name, Role: Peer, Make: f} }

// floorOf makes the floor of a row.
func floorOf(name string, f func() Work) Subject { return Subject{Name: name, Role: Floor, Make: f} }

// unlike is a peer whose work is not the same.
func unlike(name, note string, f func() Work) Subject {
	return Subject{Name: name, Role: Peer, Note: note, Make: f}
}

// serialAndParallel is a row for one goroutine, and one for all processors.
func serialAndParallel(r Row) []Row {
	p := r
	p.Name, p.Parallel = r.Name+", parallel", true
	return []Row{r, p}
}

// keys returns the row's keys in the order of use, a power of two of them: the same
// random order for everybody, with the text in that order too, so that it is the
// tables that are measured and not the fetching of the keys.
func (r Row) keys() []string {
	n := max(r.Keys, 1)
	text := r.Key
	if text == nil {
		text = address
	}
	size := 1
	for size < n {
		size *= 2
	}
	order := make([]int, size)
	for i := range order {
		order[i] = i % n
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(size, func(i, j int) { order[i], order[j] = order[j], order[i] })
	var all strings.Builder
	ends := make([]int, size)
	for i, k := range order {
		all.WriteString(text(k))
		ends[i] = all.Len()
	}
	keys := make([]string, size)
	for i, begin := 0, 0; i < size; i++ {
		keys[i] = all.String()[begin:ends[i]]
		begin = ends[i]
	}
	return keys
}

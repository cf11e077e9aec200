package resiltest

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

var lastMark atomic.Int64 //nolint:gochecknoglobals // marks differ in all of the process

// Goroutines fails the test, with their stacks, when goroutines that it started, or
// that these started, are left at its end. Call it first, once, in the goroutine of
// the test: what is cleaned up later than this call is cleaned up before the check.
//
// Those of other tests do not count, also of parallel ones: goroutines are known by a
// label of runtime/pprof, which they inherit. Code that sets such labels by itself, as
// with pprof.Do, hides what it starts, and so does time.AfterFunc.
//
// Idle connections have two goroutines each on the client's side: close them, or the
// Server, before.
func Goroutines(tb testing.TB) {
	tb.Helper()
	mark := strconv.FormatInt(lastMark.Add(1), 10)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(label, mark)))
	tb.Cleanup(func() {
		tb.Helper()
		pprof.SetGoroutineLabels(context.Background()) // those of this one
		var left []string
		if !eventually(func() bool { left = marked(mark); return len(left) == 0 }) {
			tb.Errorf("resiltest: goroutines are left after %v, with the number of those alike:\n%s", Patience, strings.Join(left, "\n\n"))
		}
	})
}

const label = "resiltest"

// marked are the stacks of goroutines with that mark.
func marked(mark string) (all []string) {
	var buf bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&buf, 1) // a buffer does not fail
	for stack := range strings.SplitSeq(buf.String(), "\n\n") {
		if strings.Contains(stack, strconv.Quote(label)+":"+strconv.Quote(mark)) {
			all = append(all, stack)
		}
	}
	return all
}

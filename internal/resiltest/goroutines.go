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

// Goroutines fails the test, with their stacks, if goroutines that it started, or that
// these started, are left at its end. Call it first, once, in the goroutine of the test:
// clean-ups that are registered after this call run before the check.
//
// Goroutines of other tests do not count, also of parallel tests: goroutines are
// identified by a label of runtime/pprof, which they inherit. Goroutines of code that
// sets such labels, as with pprof.Do, and of time.AfterFunc are not found.
//
// An idle connection has two goroutines on the client's side: close idle connections, or
// the Server, before the end of the test.
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

// marked returns the stacks of goroutines with that mark.
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

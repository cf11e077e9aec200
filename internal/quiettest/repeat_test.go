package quiettest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A recorder is a test that can fail.
type recorder struct {
	testing.TB
	failed string
}

func (*recorder) Helper()             {}
func (*recorder) Logf(string, ...any) {}

func (r *recorder) Fatal(args ...any) {
	r.failed = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func TestRepeat(t *testing.T) {
	t.Parallel()
	slow := errors.New("slow")
	for _, tt := range []struct {
		name   string
		late   time.Duration
		good   int // the first try that is
		tries  int
		failed string
	}{
		{"good", 0, 1, 1, ""},
		{"good although busy", late, 1, 1, ""},
		{"slow", late - 1, 2, 1, "slow"},
		{"void", late, 3, 3, ""},
		{"always void", late, tries + 1, tries, "the machine was too busy in each of 20 tries"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, n := &recorder{}, 0
			var ended sync.WaitGroup
			ended.Go(func() {
				repeat(r, func(stop <-chan struct{}) time.Duration { <-stop; return tt.late }, func() error {
					if n++; n >= tt.good {
						return nil
					}
					return slow
				})
			})
			ended.Wait()
			require.Equal(t, tt.tries, n)
			require.Equal(t, tt.failed, r.failed)
		})
	}
}

func TestTimersOfABubbleAreInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		require.Zero(t, watch(stop))
	})
}

func TestFailureOfATry(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		try  func(tb *T)
		want string
	}{
		"none":    {func(tb *T) {}, ""},
		"require": {func(tb *T) { require.Fail(tb, "late"); panic("it went on") }, "late"},
		"errors":  {func(tb *T) { tb.Errorf("a%d", 1); tb.Errorf("b") }, "a1\nb"},
		"cleanup": {func(tb *T) {
			tb.Cleanup(func() { tb.Errorf("c") })
			tb.Cleanup(func() { tb.Errorf("b"); tb.FailNow(); panic("it went on") })
			tb.Errorf("a")
		}, "a\nb\nc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := failure(t, tt.try); tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.want)
			}
			require.False(t, t.Failed())
		})
	}
}

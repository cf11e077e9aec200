// Package quiettest repeats tests that judge by real time, where the machine was too busy for that.
package quiettest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	beat  = 5 * time.Millisecond
	late  = 20 * time.Millisecond // by which the control timer of a void try was late
	tries = 20
)

// Repeat fails the test with the error of a try, unless a timer that ran beside it was late: then the try is
// void, and there is another one. A try without an error is good, however busy the machine was.
func Repeat(tb testing.TB, try func() error) {
	tb.Helper()
	repeat(tb, watch, try)
}

func repeat(tb testing.TB, watch func(stop <-chan struct{}) time.Duration, try func() error) {
	tb.Helper()
	for range tries {
		stop := make(chan struct{})
		longest := make(chan time.Duration)
		go func() { longest <- watch(stop) }()
		err := func() error {
			defer close(stop)
			return try()
		}()
		by := <-longest
		if err == nil {
			return
		}
		if by < late {
			tb.Fatal(err)
		}
		tb.Logf("void, as a timer was late by %v: %v", by, err)
	}
	tb.Fatalf("the machine was too busy in each of %d tries", tries)
}

// watch returns the longest time by which a timer was late.
func watch(stop <-chan struct{}) (longest time.Duration) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ticker.C:
		case <-stop:
			return max(longest, time.Since(last)-beat)
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)-beat), now
	}
}

// Test is [Repeat] with a try that fails as a test does.
func Test(tb testing.TB, try func(t *T)) {
	tb.Helper()
	Repeat(tb, func() error { return failure(tb, try) })
}

// failure returns what a try and its cleanup have failed with.
func failure(tb testing.TB, try func(t *T)) error {
	tb.Helper()
	t := &T{TB: tb}
	t.next = []func(){func() { try(t) }}
	for n := len(t.next); n > 0; n = len(t.next) {
		f := t.next[n-1]
		t.next = t.next[:n-1]
		var ended sync.WaitGroup
		ended.Go(f) // which ends with its goroutine if it fails
		ended.Wait()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.errs...)
}

// A T is a test whose failure by package require is an error. Its other failures are those of the test.
type T struct {
	testing.TB
	mu   sync.Mutex
	errs []error
	next []func() // the cleanups
}

// Cleanup has f called at the end of the try. It is for the goroutine of the try.
func (t *T) Cleanup(f func()) { t.next = append(t.next, f) }

// Errorf lets the try fail.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errs = append(t.errs, fmt.Errorf(format, args...))
}

// FailNow ends a try that has failed.
func (t *T) FailNow() { runtime.Goexit() }

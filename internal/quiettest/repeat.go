// Package quiettest repeats tests that judge by real time, where the machine was too busy for that.
package quiettest

import (
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
		over := false
		select {
		case <-ticker.C:
		case <-stop:
			over = true
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)-beat), now
		if over {
			return longest
		}
	}
}

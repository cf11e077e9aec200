package demo

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// A Screen is the standard error during a run, with its progress.
type Screen struct {
	io.Writer
	next time.Duration // of the run: when a line of progress is due
}

const showTime = 100 * time.Millisecond // between two looks at the progress

// Follow shows the progress of a run that begins now, until stop is called. done is the part that is done, 0 to 1.
func (s *Screen) Follow(ctx context.Context, progress func() (done float64, text string)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	start := time.Now()
	var following sync.WaitGroup
	following.Go(func() {
		Repeat(ctx, showTime, func() {
			done, text := progress()
			s.show(time.Since(start), done, text)
		})
	})
	return func() {
		cancel()
		following.Wait()
	}
}

// show writes a line of progress each second, or after a tenth of the time so far.
func (s *Screen) show(at time.Duration, done float64, text string) {
	if at < max(s.next, time.Second) {
		return
	}
	s.next = at + max(time.Second, at/10)
	if left := float64(at) / done * (1 - done); done > 0 && done < 1 {
		text += fmt.Sprintf(", %v left", time.Duration(left).Round(time.Second))
	}
	fmt.Fprintf(s, "%v: %s\n", at.Round(time.Second), text)
}

// Repeat calls f again and again, until ctx ends.
func Repeat(ctx context.Context, every time.Duration, f func()) {
	for Sleep(ctx, every) == nil {
		f()
	}
}

// Sleep returns the cause of ctx if it ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

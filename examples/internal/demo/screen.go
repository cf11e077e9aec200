package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// A Screen is the standard error. On a terminal, its last line can be a progress bar.
type Screen struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	bar      string
	next     time.Duration // of a run: when the next line is due, without a terminal
}

// NewScreen returns a screen over w.
func NewScreen(w io.Writer) *Screen {
	s := &Screen{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		s.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

const clearLine = "\r\x1b[K"

// Write writes lines above the bar.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar == "" {
		return s.w.Write(p)
	}
	_, err := fmt.Fprint(s.w, clearLine, string(p), s.bar)
	return len(p), err
}

const drawTime = 100 * time.Millisecond // between two bars

// Follow shows the progress of a run that began at start, until stop is called: a bar on a terminal, otherwise a line a
// second, or after a tenth of the time so far. done is the part that is done, 0 to 1.
func (s *Screen) Follow(ctx context.Context, start time.Time, progress func() (done float64, text string)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		Repeat(ctx, drawTime, func() {
			done, text := progress()
			s.show(time.Since(start), done, text)
		})
	})
	return func() {
		cancel()
		following.Wait()
		s.clear()
	}
}

func (s *Screen) show(at time.Duration, done float64, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = fmt.Sprintf("%v: %s", at.Round(time.Second), text)
	if left := float64(at) / done * (1 - done); done > 0 && done < 1 {
		text += fmt.Sprintf(", %v left", time.Duration(left).Round(time.Second))
	}
	switch {
	case s.terminal:
		s.bar = bar(done) + " " + text
		fmt.Fprint(s.w, clearLine, s.bar)
	case at >= max(s.next, time.Second):
		s.next = at + max(time.Second, at/10)
		fmt.Fprintln(s.w, text)
	}
}

// clear removes the bar at the end of a run.
func (s *Screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != "" {
		fmt.Fprint(s.w, clearLine)
	}
	s.bar, s.next = "", 0
}

func bar(done float64) string {
	const width = 30
	n := min(width, int(width*done))
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}

// Repeat calls f again and again, until ctx ends.
func Repeat(ctx context.Context, every time.Duration, f func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// Sleep returns the cause of ctx if it ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

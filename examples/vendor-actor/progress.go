package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// A screen is the standard error. On a terminal, its last line is a progress bar.
type screen struct {
	terminal bool

	mu  sync.Mutex
	w   io.Writer
	bar string
}

func newScreen(w io.Writer) *screen { return &screen{w: w, terminal: program.IsTerminal(w)} }

const clearLine = "\r\x1b[K"

// Write writes lines above the bar.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar == "" {
		return s.w.Write(p)
	}
	_, err := fmt.Fprint(s.w, clearLine, string(p), s.bar)
	return len(p), err
}

// draw replaces the bar, or removes it.
func (s *screen) draw(bar string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != "" || bar != "" {
		fmt.Fprint(s.w, clearLine, bar)
	}
	s.bar = bar
}

// follow shows how far a load is, until stop is called: by a bar on a terminal, otherwise by a line
// for each second or tenth.
func (s *screen) follow(l *load, r *remote, a algorithm) (stop func()) {
	every := max(time.Second, l.cfg.at(l.cfg.calls)/10)
	if s.terminal {
		every = 100 * time.Millisecond
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ended:
				s.draw("")
				return
			}
			served, failed := l.served.Load(), l.failed.Load()
			text := fmt.Sprintf("%v: %d of %d served, %d failed, %d attempts refused%s",
				time.Since(l.start).Round(time.Second), served, l.cfg.calls, failed, r.refused.Load(), a.state())
			if s.terminal {
				s.draw(program.Bar(served+failed, int64(l.cfg.calls)) + " " + text)
			} else {
				fmt.Fprintln(s, text)
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

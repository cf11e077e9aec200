package program

import (
	"fmt"
	"io"
	"sync"
)

// A Screen is the standard error. On a terminal, its last line can be a progress bar.
type Screen struct {
	Terminal bool

	mu  sync.Mutex
	w   io.Writer
	bar string
}

// NewScreen returns a screen over w.
func NewScreen(w io.Writer) *Screen { return &Screen{Terminal: IsTerminal(w), w: w} }

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

// Draw replaces the bar. An empty one removes it.
func (s *Screen) Draw(bar string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != "" || bar != "" {
		fmt.Fprint(s.w, clearLine, bar)
	}
	s.bar = bar
}

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// progress shows how far the load is, until ctx ends: by a bar on a terminal, otherwise by a line for
// each second or tenth.
func (l *load) progress(ctx context.Context, w io.Writer) {
	total := l.end.Sub(l.begin)
	every, begin, end := max(time.Second, total/10), "", "\n"
	terminal := program.IsTerminal(w)
	if terminal {
		every, begin, end = 100*time.Millisecond, "\r", "\x1b[K"
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			done := min(time.Since(l.begin), total)
			text := fmt.Sprintf("%v of %v: %d passed, %d were refused", done.Round(time.Second), total.Round(time.Second), l.passed.Load(), l.refused.Load())
			if terminal {
				text = program.Bar(done, total) + " " + text
			}
			fmt.Fprint(w, begin, text, end)
		case <-ctx.Done():
			if terminal {
				fmt.Fprint(w, begin, end)
			}
			return
		}
	}
}

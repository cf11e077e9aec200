package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress shows how far the load is, until ctx ends: by a bar on a terminal, otherwise by a line for
// each second or tenth.
func (l *load) progress(ctx context.Context, w io.Writer) {
	total := l.end.Sub(l.begin)
	every, begin, end := max(time.Second, total/10), "", "\n"
	terminal := isTerminal(w)
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
				text = bar(done, total) + " " + text
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

func bar(done, total time.Duration) string {
	const width = 30
	n := int(width * done / total)
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

package main

import (
	"fmt"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// follow shows how far a load is, until stop is called: by a bar on a terminal, otherwise by a line
// for each second or tenth.
func follow(s *program.Screen, l *load, r *remote, a algorithm) (stop func()) {
	every := max(time.Second, l.cfg.at(l.cfg.calls)/10)
	if s.Terminal {
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
				s.Draw("")
				return
			}
			served, failed := l.served.Load(), l.failed.Load()
			text := fmt.Sprintf("%v: %d of %d served, %d failed, %d attempts refused%s",
				time.Since(l.start).Round(time.Second), served, l.cfg.calls, failed, r.refused.Load(), a.state())
			if s.Terminal {
				s.Draw(program.Bar(served+failed, int64(l.cfg.calls)) + " " + text)
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

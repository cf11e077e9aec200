package main

import (
	"fmt"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

const progressTime = 200 * time.Millisecond

// progress is a bar, on a terminal.
type progress struct{ *program.Screen }

func (p progress) show(c *crew) {
	if !p.Terminal || c.start.IsZero() {
		return
	}
	passed := time.Since(c.start)
	text := fmt.Sprintf("%v: %d of %d served, %d failed", passed.Round(time.Second), c.served, c.total(), c.failed)
	if c.served > 0 {
		left := time.Duration(float64(passed) / float64(c.served) * float64(c.total()-c.served))
		text += fmt.Sprintf(", %.0f a second, ETA %v", float64(c.served)/passed.Seconds(), left.Round(time.Second))
	}
	p.Draw(program.Bar(c.served, c.total()) + " " + text)
}

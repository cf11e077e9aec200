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
	switch {
	case !p.Terminal:
	case c.start.IsZero():
		p.Draw(program.Bar(0, 1) + " adding the records")
	default:
		p.Draw(fmt.Sprintf("%s %v: %d of %d records, %d failed; %d calls, %d refused", program.Bar(c.served, c.Records),
			time.Since(c.start).Round(time.Second), c.served, c.Records, c.failed, c.calls, c.refused))
	}
}

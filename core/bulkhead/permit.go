package bulkhead

import (
	"context"

	"github.com/gresil/gresil/core"
)

// A Permit is a call that was admitted. Call Done exactly once, when the call has ended
// or is not made. A Permit is a value for the goroutine that makes the call; a second
// Done of the same variable does nothing, nor does one of the zero Permit.
type Permit struct {
	// Four words in four fields: the compiler keeps no larger struct in registers
	// (BenchmarkAcquire/free).
	cell       *cell
	ctx        context.Context //nolint:containedctx // for the hooks; a permit is part of one call
	generation uint32          // of the limit when it was admitted; 0 if the limit was fixed
	weight     int32
}

// Done ends the call and returns its permits. With Config.Backoff, a [core.Failure] lowers
// the limit of the key, and a [core.Success] is counted to raise it. The outcome of a
// call that was admitted before the limit was last lowered is not counted, so one overload
// lowers the limit once. [core.Ignored], or an unknown outcome, only returns the
// permits.
func (p *Permit) Done(outcome core.Outcome) {
	ended := *p
	if p.cell = nil; ended.cell != nil {
		ended.done(outcome)
	}
}

func (p Permit) done(outcome core.Outcome) {
	if p.generation != 0 {
		p.cell.end(p, outcome)
	} else if p.cell.word.add(int(p.weight))&locked != 0 {
		p.cell.returned()
	}
}

// end is Done while the limit depends on the outcomes.
func (c *cell) end(p Permit, outcome core.Outcome) {
	b := c.bulkhead
	defer b.announce()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.limit
	if cfg := b.config(); cfg.Backoff > 0 && p.generation == c.generation.Load() {
		c.adapt(cfg, int(p.weight), outcome)
	}
	if c.limit != before {
		b.changes.Append(change{p.ctx, Info{Key: c.key, OldLimit: before, Limit: c.limit}})
	}
	c.word.add(int(p.weight))
	c.serve()
}

// adapt changes the limit: an increase by addition, a decrease by multiplication. The
// call still holds its permits.
func (c *cell) adapt(cfg *Config, weight int, outcome core.Outcome) {
	switch outcome {
	case core.Failure:
		c.successes = 0
		if lower := max(cfg.minLimit(), int(float64(c.limit)*cfg.Backoff)); lower < c.limit {
			c.newGeneration()
			c.setLimit(lower)
			c.bulkhead.lowered.Add(1)
		}
	case core.Success:
		if used := c.limit - free(c.word.Load()); c.limit == cfg.limit() || used < c.limit-used {
			return // more permits would not have been used
		}
		if c.successes += weight; c.successes >= c.limit {
			c.successes = 0
			c.setLimit(c.limit + 1)
			c.bulkhead.raised.Add(1)
		}
	case core.Ignored:
	}
}

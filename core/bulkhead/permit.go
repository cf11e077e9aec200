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
	ctx        context.Context //nolint:containedctx // for the events; a permit is part of one call
	generation uint32          // of the limit when it was admitted; 0 if the limit was fixed
	weight     int32
}

// Context returns the context of the call: the one that the call was admitted with. With a
// Store, it is derived from that one, and ends with Done, or with the cause [ErrLost] if the
// permits are lost. A call that must not exceed the limit uses it.
func (p *Permit) Context() context.Context {
	if p.ctx == nil {
		return context.Background()
	}
	return p.ctx
}

// Done ends the call and returns its permits. With Config.Backoff, a [core.Failure] lowers
// the limit of the key, and a [core.Success] is counted to raise it. The outcome of a
// call that was admitted before the limit was last lowered is not counted, so one overload
// lowers the limit once. [core.Ignored], or an unknown outcome, only returns the
// permits.
//
// With a Store, Done waits until the permits are returned there too, for as long as the Store
// waits for one reply. If that fails, the Store returns them later.
func (p *Permit) Done(outcome core.Outcome) {
	ended := *p
	if p.cell = nil; ended.cell != nil {
		ended.cell.done(ended, outcome)
	}
}

func (c *cell) done(p Permit, outcome core.Outcome) {
	if p.generation == 0 || outcome != core.Success && outcome != core.Failure {
		if c.word.add(int(p.weight))&locked == 0 {
			return
		}
		p.generation = 0 // the permits are returned
	}
	c.end(p, outcome)
}

// end is done where the word alone is not enough: calls wait, or the outcome counts.
func (c *cell) end(p Permit, outcome core.Outcome) {
	defer c.bulkhead.announce()
	if l, shared := p.ctx.(*lease); shared {
		l.end()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.generation != 0 {
		if cfg := c.bulkhead.config(); cfg.Backoff > 0 && p.generation == c.generation.Load() {
			c.adapt(cfg, p, outcome)
		}
		c.word.add(int(p.weight))
	}
	c.serve()
}

// adapt changes the limit: an increase by addition, a decrease by multiplication. The
// call still holds its permits.
func (c *cell) adapt(cfg *Config, p Permit, outcome core.Outcome) {
	b, old := c.bulkhead, c.limit
	switch outcome {
	case core.Failure:
		c.successes = 0
		if lower := max(cfg.minLimit(), int(float64(old)*cfg.Backoff)); lower < old {
			c.newGeneration()
			c.setLimit(lower)
			b.lowered.Add(1)
		}
	case core.Success:
		if used := old - free(c.word.Load()); old >= cfg.limit() || used < old-used {
			return // more permits would not have been used
		}
		if c.successes += int(p.weight); c.successes >= old {
			c.successes = 0
			c.setLimit(old + 1)
			b.raised.Add(1)
		}
	case core.Ignored:
	}
	if c.limit != old {
		b.changes.Append(change{p.ctx, c.key, old, c.limit})
	}
}

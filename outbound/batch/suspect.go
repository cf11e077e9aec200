package batch

import (
	"context"
	"errors"
	"fmt"
)

// suspicious is the number of losses from which a batch is a suspect: its records may be what ends the
// processes. Up to there, the losses of a batch can be those of a process that was killed, or that
// another batch has ended.
const suspicious = 2

// suspect halves a batch that was lost again, lets a single record fail that was lost too often, and
// sends any other suspect while no other one is sent in this process. So a record fails only after
// processes have ended in which it was the only suspect.
func (d *delivery[T, R]) suspect(ctx context.Context) {
	v, all := d.begin(), make([]int, len(d.batch.Records))
	for i := range all {
		all[i] = i
	}
	err := fmt.Errorf("batch: %d processes ended, or lost the store, during a call with the record", d.batch.Losses)
	switch {
	case len(all) > 1 && d.batch.Expired:
		v.settlement.Error = textOf(err)
		v.halve(all, suspicious)
		d.conclude(v)
	case len(all) == 1 && d.batch.Losses >= max(d.set.MaxAttempts, suspicious+1):
		v.fail(0, err)
		d.conclude(v)
	default:
		d.try(ctx)
	}
}

// try sends a suspect. While it waits, the end of the process is no loss.
func (d *delivery[T, R]) try(ctx context.Context) {
	b := d.b
	_ = d.extend(true) // otherwise a process that ends now counts
	select {
	case b.trial <- struct{}{}:
		defer func() { <-b.trial }()
	case <-ctx.Done():
		d.giveBack()
		return
	}
	f := feeder[T, R]{b: b} // with a permit of its own
	err := f.persist(ctx, func() error {
		if err := f.pace(ctx, d.set); err != nil {
			return err
		}
		if err := d.extend(false); err != nil {
			return err
		}
		return f.pace(ctx, d.set)
	})
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		d.giveBack()
		return
	}
	d.send(d.open())
}

package batch

import (
	"context"
	"time"
)

// Flush marks all records of the options as due; without options, those of all groups. It does not
// wait until they are sent. Other processes of the Store notice it within a second. Options without
// records are ignored. The error is [ErrStore], or the cause of ctx.
func (b *Batcher[T, R]) Flush(ctx context.Context, options ...string) error {
	return b.control(ctx, func() error { return b.store.Flush(ctx, b.method, options...) })
}

// Pause keeps the records of an option from being sent, until Resume. Calls in flight continue. It
// holds for all processes of the Store. Records can be added. The error is [ErrGroups], [ErrStore], or
// the cause of ctx.
func (b *Batcher[T, R]) Pause(ctx context.Context, option string) error {
	return b.pause(ctx, option, true)
}

// Resume ends the pause of an option. Its errors are those of Pause.
func (b *Batcher[T, R]) Resume(ctx context.Context, option string) error {
	return b.pause(ctx, option, false)
}

func (b *Batcher[T, R]) pause(ctx context.Context, option string, paused bool) error {
	return b.control(ctx, func() error {
		return b.store.Pause(ctx, b.method, option, paused, b.setting().MaxGroups)
	})
}

// Delete removes the records of an option that are not in a call in flight, the failed ones
// included, and ends its pause. It returns their number. Their Calls get [ErrDeleted]. The error is
// [ErrStore], or the cause of ctx.
func (b *Batcher[T, R]) Delete(ctx context.Context, option string) (n int, err error) {
	err = b.control(ctx, func() (err error) {
		n, err = b.store.Delete(ctx, b.method, option)
		return err
	})
	return n, err
}

// Retry makes the failed records of an option pending again, and due, with all their attempts, and
// returns their number. They are not unique any longer. The error is [ErrStore], or the cause of ctx.
func (b *Batcher[T, R]) Retry(ctx context.Context, option string) (n int, err error) {
	err = b.control(ctx, func() (err error) {
		n, err = b.store.Retry(ctx, b.method, option)
		return err
	})
	return n, err
}

// control executes an operation of the store that a caller waits for.
func (b *Batcher[T, R]) control(ctx context.Context, f func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := f()
	if err != nil {
		return b.refused(ctx, err)
	}
	b.storeWorks(ctx)
	b.poke()
	return nil
}

const maxGroupsShown = 10_000

// Groups returns the state of the groups of all processes, at most 10,000. The error is [ErrStore], or
// the cause of ctx.
func (b *Batcher[T, R]) Groups(ctx context.Context) ([]GroupInfo, error) {
	listing, err := b.listing(ctx)
	return listing.Groups, err
}

func (b *Batcher[T, R]) listing(ctx context.Context) (listing Listing, err error) {
	err = b.control(ctx, func() (err error) {
		listing, err = b.store.Groups(ctx, b.method, maxGroupsShown)
		return err
	})
	set := b.setting()
	for i := range listing.Groups {
		switch info := &listing.Groups[i]; {
		case info.Due:
			info.NextFlush = time.Now()
		case !info.Oldest.IsZero():
			info.NextFlush = info.Oldest.Add(set.FlushAfter)
		}
	}
	return listing, err
}

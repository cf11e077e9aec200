package batch_test

import (
	"context"
	"time"

	"github.com/gresil/gresil/outbound/batch"
)

// A proxy is between a batcher and its store: it can fail before and after each operation, as a
// network does.
type proxy struct {
	batch.Store
	before, after func(operation string) error // nil: no failure
}

func through[V any](p *proxy, operation string, f func() (V, error)) (V, error) {
	var none V
	if p.before != nil {
		if err := p.before(operation); err != nil {
			return none, err
		}
	}
	v, err := f()
	if err == nil && p.after != nil {
		if err := p.after(operation); err != nil {
			return none, err
		}
	}
	return v, err
}

func (p *proxy) Add(ctx context.Context, method string, rec *batch.Record, rules batch.Rules) (batch.Added, error) {
	return through(p, "Add", func() (batch.Added, error) { return p.Store.Add(ctx, method, rec, rules) })
}

func (p *proxy) Ready(ctx context.Context, method string, flushAfter time.Duration) (batch.State, error) {
	return through(p, "Ready", func() (batch.State, error) { return p.Store.Ready(ctx, method, flushAfter) })
}

func (p *proxy) Lease(ctx context.Context, method string, terms batch.Terms) (batch.Batch, batch.State, error) {
	var state batch.State
	b, err := through(p, "Lease", func() (b batch.Batch, err error) {
		b, state, err = p.Store.Lease(ctx, method, terms)
		return b, err
	})
	return b, state, err
}

func (p *proxy) Extend(ctx context.Context, method, id string, delivery int, lease time.Duration, waiting bool) error {
	_, err := through(p, "Extend", func() (struct{}, error) {
		return struct{}{}, p.Store.Extend(ctx, method, id, delivery, lease, waiting)
	})
	return err
}

func (p *proxy) Settle(ctx context.Context, method string, s batch.Settlement) error {
	_, err := through(p, "Settle", func() (struct{}, error) { return struct{}{}, p.Store.Settle(ctx, method, s) })
	return err
}

func (p *proxy) Flush(ctx context.Context, method string, options ...string) error {
	_, err := through(p, "Flush", func() (struct{}, error) { return struct{}{}, p.Store.Flush(ctx, method, options...) })
	return err
}

func (p *proxy) Groups(ctx context.Context, method string, limit int) (batch.Listing, error) {
	return through(p, "Groups", func() (batch.Listing, error) { return p.Store.Groups(ctx, method, limit) })
}

func (p *proxy) Receive(ctx context.Context, method, process string, wait time.Duration) ([]batch.Reply, error) {
	return through(p, "Receive", func() ([]batch.Reply, error) { return p.Store.Receive(ctx, method, process, wait) })
}

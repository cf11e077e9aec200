package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/limits"
)

// A Chain is several limiters that all have to allow, for example one for all users and one for
// each user:
//
//	chain := ratelimit.Chain{{Limiter: all}, {Limiter: perUser, Key: user}}
//	r, err := chain.Take(ctx, 1)
//
// It is a plain value: make one for each call. The limiters decide in order; put the limiter that
// refuses most first. Each counts its own decisions. A chain that would charge one count of a key
// twice, such as a chain with the same limiter twice, is a [*core.ConfigError]. For several limits
// on one key, [Limit.And] is less work, and one atomic step.
type Chain []Link

// A Link is one limiter of a [Chain], and the key whose permits it takes.
type Link struct {
	Limiter *Limiter
	Key     string
}

// A ChainResult is the decision of a Chain.
type ChainResult struct {
	// Result is that of the limiter that counts: of those that refused, the one
	// with the latest RetryAfter; if all allowed, the one with least remaining, and of
	// those the one with the latest NextAfter.
	Result
	// Link is the place of that limiter in the chain.
	Link int
	// Each holds the results of all links, in their order. If a link refused, no link granted
	// permits, and the results of the links before it are from after their refunds.
	Each []Result
}

// Take takes n permits of each link now, or of none. If a link refuses, the permits taken from the
// links before it are refunded, and the links after it are only checked for their RetryAfter. If a
// link fails, the permits are refunded as well; the error joins all failures.
func (c Chain) Take(ctx context.Context, n int64) (ChainResult, error) {
	return c.run(ctx, n, (*Limiter).Take)
}

// Wait is Take with [Limiter.Wait]: it waits at each link in turn. A refusal is a
// [*LimitedError] of the limiter that counts.
func (c Chain) Wait(ctx context.Context, n int64) (ChainResult, error) {
	return c.run(ctx, n, (*Limiter).Wait)
}

func (c Chain) run(ctx context.Context, n int64, take func(*Limiter, context.Context, string, int64) (Result, error)) (ChainResult, error) {
	if err := c.validate(); err != nil {
		return ChainResult{}, err
	}
	all := ChainResult{Each: make([]Result, len(c))}
	all.Allowed = true
	for i, link := range c {
		r, err := take(link.Limiter, ctx, link.Key, n)
		all.Each[i] = r
		if _, limited := errors.AsType[*LimitedError](err); err != nil && !limited {
			return ChainResult{}, joined(err, c[:i].giveBack(ctx, all.Each))
		}
		if !r.Allowed {
			back := c[:i].giveBack(ctx, all.Each)
			for j, link := range c[i+1:] {
				all.Each[i+1+j], _ = link.Limiter.check(ctx, link.Key, n) // a failed check does not count
			}
			all.settle()
			if err != nil {
				err = &LimitedError{Name: c[all.Link].Limiter.Name(), Result: all.Result}
			}
			return all, joined(err, back)
		}
	}
	all.settle()
	return all, nil
}

// validate reports a link that charges what an earlier one charges.
func (c Chain) validate() error {
	for i, link := range c {
		for _, earlier := range c[:i] {
			if link.Key == earlier.Key && link.Limiter.counts(earlier.Limiter) {
				return &core.ConfigError{Field: fmt.Sprintf("ratelimit.Chain[%d]", i), Value: link.Limiter.Name(), Reason: "must not be in the chain twice with one key: a permit would be charged twice"}
			}
		}
	}
	return nil
}

// counts reports whether a permit that l takes of a key counts under other too: both have one
// table, or wrap one.
func (l *Limiter) counts(other *Limiter) bool {
	return l.shared == other.shared || identity.Same(innermost(l.table), innermost(other.table))
}

// joined returns err itself, unless other is set too.
func joined(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}

// Refund gives back, in reverse order, the permits of a Take or a Wait of the same chain. The
// error joins all failures.
func (c Chain) Refund(ctx context.Context, take ChainResult) error {
	return c.giveBack(ctx, slices.Clone(take.Each))
}

// giveBack refunds takes, and replaces each with the result of its refund.
func (c Chain) giveBack(ctx context.Context, takes []Result) error {
	var errs []error
	for i, link := range slices.Backward(c) {
		if i >= len(takes) || takes[i].Permits == 0 {
			continue
		}
		err := link.Limiter.Refund(ctx, takes[i])
		var now Result
		if err == nil {
			now, err = link.Limiter.Peek(context.WithoutCancel(ctx), link.Key)
		}
		if err != nil {
			errs = append(errs, err)
			now = takes[i]
			now.Permits, now.Receipt = 0, limits.Receipt{}
		}
		takes[i] = now
	}
	return errors.Join(errs...)
}

// settle finds the result that counts.
func (r *ChainResult) settle() {
	for i, each := range r.Each {
		if each.Limit == 0 {
			continue // the store failed, and OnStoreError allowed the call
		}
		if r.Limit == 0 || worse(each, r.Result) {
			r.Result, r.Link = each, i
		}
	}
}

// worse reports whether a counts instead of b, of two results for one cost.
func worse(a, b Result) bool {
	switch {
	case a.Allowed != b.Allowed:
		return !a.Allowed
	case a.RetryAfter == Never || b.RetryAfter == Never:
		return b.RetryAfter != Never
	case !a.Allowed:
		return a.RetryAfter > b.RetryAfter
	}
	return a.Remaining < b.Remaining || a.Remaining == b.Remaining && a.NextAfter > b.NextAfter
}

// innermost returns the table that counts: t, or the one that t wraps.
func innermost(t limits.Table) limits.Table {
	for {
		w, wraps := t.(interface{ Unwrap() limits.Table })
		if !wraps {
			return t
		}
		t = w.Unwrap()
	}
}

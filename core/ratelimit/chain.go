package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit/driver"
)

// A Chain is several limiters that all have to allow, as one for all and one for
// each user:
//
//	chain := ratelimit.Chain{{Limiter: all}, {Limiter: perUser, Key: user}}
//	r, err := chain.Take(ctx, 1)
//
// It is a plain value, to be made for each call. The limiters decide in their order; put
// the one that refuses most first. Each counts its own decisions. A chain that would charge
// one count of a key twice, as with a limiter that is in it twice, is a
// [*core.ConfigError]. For several limits on one key [Limit.And] is less work, and one
// atomic step.
type Chain []Link

// A Link is one limiter of a [Chain], and whose permits of it are taken.
type Link struct {
	Limiter *Limiter
	Key     string
}

// A ChainResult is what a Chain decided.
type ChainResult struct {
	// Result is that of the limiter that counts: of those that refused, the one
	// with the latest RetryAfter; if all allowed, the one with least remaining.
	Result
	// Link is the place of that limiter in the chain.
	Link int
	// Each are the results of all links, in their order. When one has refused,
	// nothing is granted by any, and those before it tell how they stand after
	// giving back.
	Each []Result
}

// Take takes n permits of each link now, or of none. When one refuses, those taken
// already are given back, so that no limiter is poorer, and those after it are only
// asked how long they would refuse too. When one fails, so they are; the error has
// then all that went wrong.
func (c Chain) Take(ctx context.Context, n int64) (ChainResult, error) {
	return c.run(ctx, n, (*Limiter).Take)
}

// Wait is Take with [Limiter.Wait]: it waits at each link in turn. A refusal is a
// [*LimitedError].
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
		var limited *LimitedError
		if err != nil && !errors.As(err, &limited) {
			return ChainResult{}, joined(err, c[:i].giveBack(ctx, all.Each))
		}
		if !r.Allowed {
			back := c[:i].giveBack(ctx, all.Each)
			for j, link := range c[i+1:] {
				all.Each[i+1+j], _ = link.Limiter.check(ctx, link.Key, n) // what it cannot tell does not count
			}
			all.settle()
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

// counts reports whether what l takes of a key counts under other too: whether they are in one table.
func (l *Limiter) counts(other *Limiter) bool {
	return l.shared == other.shared || l.memory != nil && l.memory == other.memory
}

// joined is err itself, unless there is another.
func joined(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}

// Refund gives back, in reverse, what a Take or a Wait of the same chain has taken.
// The error has all that failed.
func (c Chain) Refund(ctx context.Context, take ChainResult) error {
	return c.giveBack(ctx, slices.Clone(take.Each))
}

// giveBack gives back what was taken, and puts how the keys stand then in its place.
func (c Chain) giveBack(ctx context.Context, takes []Result) error {
	var errs []error
	for i, link := range slices.Backward(c) {
		if i >= len(takes) || takes[i].Granted == 0 {
			continue
		}
		now, err := link.Limiter.Refund(ctx, link.Key, takes[i])
		if err != nil {
			errs = append(errs, err)
			now = takes[i]
			now.Granted, now.Receipt = 0, driver.Receipt{}
		}
		takes[i] = now
	}
	return errors.Join(errs...)
}

// settle finds the result that counts.
func (r *ChainResult) settle() {
	for i, each := range r.Each {
		if each.Limit == 0 {
			continue // a store that failed and lets pass
		}
		if r.Limit == 0 || worse(each, r.Result) {
			r.Result, r.Link = each, i
		}
	}
}

// worse tells whether of two results for one cost it is a that counts.
func worse(a, b Result) bool {
	switch {
	case a.Allowed != b.Allowed:
		return !a.Allowed
	case a.RetryAfter == Never || b.RetryAfter == Never:
		return b.RetryAfter != Never
	case !a.Allowed:
		return a.RetryAfter > b.RetryAfter
	}
	return a.Remaining < b.Remaining
}

package ratelimit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/internal/waitq"
	"github.com/gresil/gresil/server"
)

// A charge is permits of one key that a request takes, and the decision about them.
type charge struct {
	limit  *limit
	key    string
	n      int64
	result Result
}

// charges appends what a request takes: usually of one rule, and of the layers.
func (s *Server) charges(all []charge, r *http.Request, opts *ServerOptions) ([]charge, error) {
	find := opts.Key
	if find == nil {
		find = server.ClientIP
	}
	key, ok := find(r)
	if !ok {
		return nil, server.Rejection{Status: http.StatusForbidden, RetryAfter: -1, Err: errNoKey}
	}
	first, more := s.root, []*rule(nil)
	if s.routes != nil {
		first, more = s.routes.find(r)
	}
	most := int64(0)
	for i, u := 0, first; ; i++ {
		c := charge{limit: u.limit, key: u.keyOf(key)}
		var err error
		if c.n, err = u.cost(r, opts); err != nil {
			return nil, err
		}
		if u.tiered && opts.Tier != nil {
			c.limit = s.limit(opts.Tier(r))
		}
		most = max(most, c.n)
		if same := slices.IndexFunc(all, func(other charge) bool { return other.key == c.key }); same >= 0 { // rules of one limit
			all[same].n = max(all[same].n, c.n)
		} else {
			all = append(all, c)
		}
		if i == len(more) {
			break
		}
		u = more[i]
	}
	for _, l := range s.layers {
		key, ok := "", true
		if l.key != nil {
			key, ok = l.key(r)
		}
		if ok {
			all = append(all, charge{limit: l.limit, key: l.prefix + key, n: most})
		}
	}
	return all, nil
}

// keyOf returns the key of a request under a rule.
func (u *rule) keyOf(key string) string {
	if u.prefix == "" && strings.HasPrefix(key, "#") {
		return markKey + key
	}
	return u.prefix + key
}

// cost returns how many permits a request takes under a rule.
func (u *rule) cost(r *http.Request, opts *ServerOptions) (int64, error) {
	weight := u.weight
	if weight == nil {
		if weight = opts.Weight; weight == nil {
			return 1, nil
		}
	}
	n, err := weight(r)
	if err == nil && n < 0 {
		err = validate.Bad("ratelimit.ServerOptions.Weight", n, "must return >= 0 (0 takes nothing)")
	}
	return n, err
}

// take takes all charges or none, in their order, and returns which of them decides: the one that refuses, or the one with the
// fewest permits left. An error is never a refusal.
func (o *ServerOptions) take(ctx context.Context, limiter *Limiter, charges []charge) (decides int, err error) {
	bounded := ctx
	waits := o.Wait && !o.Shadow
	if waits && len(charges) > 1 { // MaxWait is for all of them
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, waitq.Longest(limiter.Config().MaxWait))
		defer cancel()
	}
	for i := range charges {
		c := &charges[i]
		if waits {
			c.result, err = c.limit.limiter.Wait(bounded, c.key, c.n)
			if errors.Is(err, ErrLimited) {
				err = nil
			}
		}
		if !waits || err != nil && bounded.Err() != nil && ctx.Err() == nil { // or it has waited for too long
			c.result, err = c.limit.limiter.Take(ctx, c.key, c.n)
		}
		if err != nil || !c.result.Allowed {
			for _, earlier := range slices.Backward(charges[:i]) {
				_ = limiter.Refund(ctx, earlier.result) // if it fails, the permits come back in their time
			}
			return i, err
		}
		if tighter(&c.result, &charges[decides].result) {
			decides = i
		}
	}
	return decides, nil
}

// tighter reports whether a has fewer permits left than b or, if they are the same, its next permit later.
func tighter(a, b *Result) bool {
	if a.Limit <= 0 || b.Limit <= 0 { // nothing is known: the store has failed
		return a.Limit > 0
	}
	return a.Remaining < b.Remaining || a.Remaining == b.Remaining && a.NextAfter > b.NextAfter
}

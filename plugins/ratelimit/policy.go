package ratelimit

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/gresil/gresil/internal/header"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/problem"
	"github.com/gresil/gresil/internal/text"
)

// A limit is one of the limits of a limiter, and the text about it.
type limit struct {
	under   string // its name in Config.Limits; empty for Config.Limit
	limiter *Limiter
	current atomic.Pointer[policies]
}

// policies are the limits that And has joined, or the only one, with text that is prepared before requests.
type policies struct {
	of   Limit
	all  []policy
	line string // RateLimit-Policy
}

// A policy is a limit as a client knows it.
type policy struct {
	name     string
	item     string        // the same as a structured field
	refusal  *problem.Body // 429
	capacity int64
}

const maxInteger = 999_999_999_999_999 // of a structured field

// prepared returns the text about the limit that is in force.
func (l *limit) prepared() *policies {
	now := l.limiter.Limit()
	p := l.current.Load()
	if p == nil || p.of != now {
		p = newPolicies(cmp.Or(l.under, l.limiter.Name()), now)
		l.current.Store(p)
	}
	return p
}

func newPolicies(name string, of Limit) *policies {
	specs := limits.Limit(of).Specs()
	p := &policies{of: of}
	var line httpsfv.List
	for _, spec := range specs {
		unique := name
		if len(specs) > 1 {
			unique += "-" + text.Duration(spec.Period)
		}
		for i, stem := 2, unique; slices.ContainsFunc(p.all, func(p policy) bool { return p.name == unique }); i++ {
			unique = stem + "-" + strconv.Itoa(i)
		}
		item, capacity := httpsfv.NewItem(unique), limits.Capacity(spec)
		quoted, _ := httpsfv.Marshal(item) // an error leaves the field out: see ServerOptions.validate
		item.Params.Add("q", min(capacity, maxInteger))
		if fill, _ := limits.FillTime(spec); fill >= time.Second {
			item.Params.Add("w", header.Seconds(fill))
		}
		line = append(line, item)
		p.all = append(p.all, policy{unique, quoted, quotaExceeded(unique).Body(), capacity})
	}
	p.line, _ = httpsfv.Marshal(line)
	return p
}

// policy returns the one of a decision.
func (p *policies) policy(r *Result) *policy {
	if r.Which < 0 || r.Which >= len(p.all) { // of a key with a limit of its own
		return &p.all[0]
	}
	return &p.all[r.Which]
}

// quotaExceeded is the answer that a limit gives. It does not have the time to wait, which Retry-After has, so that it can be
// prepared.
func quotaExceeded(name string) problem.Details {
	return problem.Details{
		Status:   http.StatusTooManyRequests,
		Type:     "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:    "Request cannot be satisfied as assigned quota has been exceeded",
		Detail:   "Rate limit exceeded.",
		Policies: []string{name},
	}
}

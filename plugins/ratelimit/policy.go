package ratelimit

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/server"
)

// A limit is one of the limits of a limiter, with its text for responses.
type limit struct {
	under   string // its name in Config.Limits; empty for Config.Limit
	limiter *Limiter
	current atomic.Pointer[policies]
}

// policies are the limits that And has joined, or the only one, with text that is prepared once.
type policies struct {
	plan *limits.Plan
	all  []policy
}

// A policy is a limit as a client knows it.
type policy struct {
	name    string
	item    string       // the name as an item of a structured field
	line    string       // the item of RateLimit-Policy
	refusal *reject.Body // 429
}

// prepared returns the policies of the limits that were applied, which can be those of one key or of an Override, and the one that decided.
func (l *limit) prepared(r *Result) (all []policy, decided *policy) {
	p, plan := l.current.Load(), r.Receipt.Plan
	if p == nil || p.plan != plan && plan != nil {
		p = newPolicies(cmp.Or(l.under, l.limiter.Name()), plan)
		l.current.Store(p)
	}
	return p.all, &p.all[min(r.Which, len(p.all)-1)]
}

func newPolicies(name string, plan *limits.Plan) *policies {
	p := &policies{plan: plan}
	for _, rule := range plan.Rules {
		unique := name
		if len(plan.Rules) > 1 {
			unique += "-" + strings.ReplaceAll(text.Duration(rule.Spec.Period), "µ", "u") // an item is ASCII
		}
		for i, stem := 2, unique; slices.ContainsFunc(p.all, func(p policy) bool { return p.name == unique }); i++ {
			unique = stem + "-" + strconv.Itoa(i)
		}
		item := httpsfv.NewItem(unique)
		quoted, _ := httpsfv.Marshal(item) // an error leaves the field out: see ServerOptions.validate
		item.Params.Add("q", rule.Capacity)
		if fill, _ := limits.FillTime(rule.Spec); fill >= time.Second {
			item.Params.Add("w", reject.Seconds(fill))
		}
		line, _ := httpsfv.Marshal(item)
		r := quotaExceeded(unique)
		body := reject.Details{Status: r.Status, Type: r.Type, Title: r.Title, Detail: r.Detail, Policies: r.Policies}.Body()
		p.all = append(p.all, policy{unique, quoted, line, body})
	}
	return p
}

// quotaExceeded is the response of a limit that refuses. It does not contain the time to wait, which Retry-After has, so that it can be
// prepared.
func quotaExceeded(name string) server.Rejection {
	return server.Rejection{
		Status:   http.StatusTooManyRequests,
		Type:     "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:    "Request cannot be satisfied as assigned quota has been exceeded",
		Detail:   "Rate limit exceeded.",
		Policies: []string{name},
	}
}

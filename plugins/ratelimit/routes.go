package ratelimit

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// A rule has the limit of the requests of a route, or of all others.
type rule struct {
	set     *settings
	limiter *ratelimit.Limiter
	weight  func(*http.Request) (int64, error) // nil: 1
	tier    func(*http.Request) Limit          // nil: none
	mark    string                             // before the keys, of a route with permits of its own
	texts   *texts
}

// routes are the patterns and their rules, the more specific ones before the more
// general.
type routes []route

type route struct {
	pattern
	rule *rule
}

// A price is what a request takes under a rule.
type price struct {
	*rule
	cost    int64
	limiter *ratelimit.Limiter
	err     error
}

// rules returns the rules that r may have. Most requests have no more than one.
func (s *settings) rules(r *http.Request) (first *rule, more []*rule) {
	if len(s.routes) == 0 {
		return s.others, nil
	}
	return s.routes.rules(r, s.others)
}

// priceOf returns what r takes: the highest of the prices that it may have, by the time in
// which the permits recover, and also the others of the same cost.
func (s *settings) priceOf(r *http.Request) (p price, also []price) {
	first, more := s.rules(r)
	p = first.price(r)
	if more == nil {
		return p, nil
	}
	for _, u := range more {
		also = append(also, u.price(r))
	}
	for i := range also {
		if also[i].recovery() > p.recovery() {
			p, also[i] = also[i], p
		}
	}
	also = slices.DeleteFunc(also, func(a price) bool { return a.err != nil || a.cost != p.cost || a.mark == p.mark })
	slices.SortFunc(also, func(a, b price) int { return strings.Compare(a.mark, b.mark) })
	return p, slices.CompactFunc(also, func(a, b price) bool { return a.mark == b.mark }) // a mark is a bucket
}

// price returns what r takes under u.
func (u *rule) price(r *http.Request) price {
	p := price{rule: u, cost: 1, limiter: u.limiter}
	if u.weight != nil {
		p.cost, p.err = u.weight(r)
	}
	if p.err == nil && p.cost < 0 {
		p.err = &core.ConfigError{Field: "ratelimit.ServerConfig.Weight", Value: p.cost, Reason: "must return >= 0 (0 takes nothing)"}
	}
	if p.err == nil && u.tier != nil {
		if limit := u.tier(r); limit != (Limit{}) {
			p.limiter, p.err = p.limiter.WithLimit(limit)
		}
	}
	return p
}

// recovery returns the seconds in which the permits of p recover.
func (p *price) recovery() (longest float64) {
	if p.err != nil {
		return math.Inf(1) // the answer is an error
	}
	for _, spec := range limits.Limit(p.limiter.Limit()).Specs() {
		longest = max(longest, float64(p.cost)*spec.Period.Seconds()/float64(spec.Permits))
	}
	return longest
}

// rules returns every rule that r may have, none for that of no route. Which one it has
// depends on the router and on its middleware, and both can be outside or inside of the
// limiter. It does not allocate if there is only one: a mux does, for a request that it has no
// pattern for.
func (rs routes) rules(r *http.Request, none *rule) (first *rule, more []*rule) {
	routing := chi.RouteContext(r.Context())
	l := lookup{routes: rs, r: r, method: r.Method, none: none}
	l.all(routing)
	if r.Method == http.MethodHead { // chi takes a HEAD for a GET only with GetHead
		l.headOnly = true
		l.all(routing)
		l.headOnly = false
	}
	if routing != nil && routing.RouteMethod != "" && routing.RouteMethod != r.Method {
		l.method = routing.RouteMethod
		l.all(routing)
	}
	return l.first, l.more
}

// A lookup finds the rules of a request.
type lookup struct {
	routes
	r        *http.Request
	method   string
	headOnly bool
	others   bool // whether it may have no rule is known
	none     *rule
	first    *rule
	more     []*rule
}

func (l *lookup) add(u *rule) {
	if l.first == nil {
		l.first = u
	} else if u != l.first && !slices.Contains(l.more, u) {
		l.more = append(l.more, u)
	}
}

// all finds the rules for every path that a router may see.
func (l *lookup) all(routing *chi.Context) {
	u := l.r.URL
	escaped, raw := u.Path, u.Path
	if u.RawPath != "" {
		escaped, raw = u.EscapedPath(), u.RawPath // different ones after a rewriting of Path
	}
	cleaned := clean(escaped)
	l.find(cleaned, u.RawPath != "") // of ServeMux
	if raw != cleaned || u.RawPath != "" {
		l.find(raw, false) // of chi
	}
	l.others = true
	if u.RawPath != "" { // of StripSlashes and URLFormat: a %2F is a slash
		l.find(u.Path, false)
		l.find(clean(u.Path), false)
	}
	if routing != nil && routing.RoutePath != "" && routing.RoutePath != u.Path { // in a mounted router, without its prefix
		l.find(routing.RoutePath, false)
		l.find(clean(routing.RoutePath), false)
	}
}

// find adds the rule of the most specific pattern that matches a path, or none.
// It then adds the rule of a more specific one to which [http.ServeMux] would redirect,
// with a slash at its end, and that for the path without extensions and slashes at its
// end, if there are such.
func (l *lookup) find(path string, inMux bool) {
	if !strings.HasPrefix(path, "/") {
		return // no router has a pattern for it
	}
	bare := path[len(path)-1] != '/' && strings.IndexByte(path, '.') < 0
	var found, slash, loose *rule
	for i := range l.routes {
		p := &l.routes[i]
		if !p.admits(l.method, l.r.Host, l.headOnly) {
			continue
		}
		switch p.match(path, inMux) {
		case matching:
			found = cmp.Or(found, p.rule)
		case slashMissing:
			slash = cmp.Or(slash, p.rule)
		case decorated:
			loose = cmp.Or(loose, p.rule)
		case different:
		}
		if found != nil && bare {
			break
		}
	}
	if found != nil || slash == nil && !l.others {
		l.add(cmp.Or(found, l.none))
	}
	for _, u := range [...]*rule{slash, loose} {
		if u != nil {
			l.add(u)
		}
	}
}

package ratelimit

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
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

// price returns the cost of a request under this rule, and its limiter.
func (u *rule) price(r *http.Request) (cost int64, limiter *ratelimit.Limiter, err error) {
	cost, limiter = 1, u.limiter
	if u.weight != nil {
		cost, err = u.weight(r)
	}
	if err == nil && cost < 0 {
		err = &core.ConfigError{Field: "ratelimit.ServerConfig.Weight", Value: cost, Reason: "must return >= 0 (0 takes nothing)"}
	}
	if err == nil && u.tier != nil {
		if limit := u.tier(r); limit != (Limit{}) {
			limiter, err = limiter.WithLimit(limit)
		}
	}
	return cost, limiter, err
}

// routes are the patterns and their rules, the more specific ones before the more
// general.
type routes []route

type route struct {
	pattern
	rule *rule
}

// find returns the rule for r, or nil. It finds what [http.ServeMux] would, also
// where that would redirect to a clean path or to one with a slash at its end, and
// does not allocate: the mux does, for a request that it has no pattern for.
func (rs routes) find(r *http.Request) *rule {
	if len(rs) == 0 {
		return nil
	}
	path, escaped := r.URL.Path, r.URL.RawPath != ""
	if escaped {
		path = r.URL.EscapedPath()
	}
	path = clean(path)
	var slash *rule // a more specific one, to which a mux would redirect
	for i := range rs {
		p := &rs[i]
		if !p.admits(r) {
			continue
		}
		switch p.match(path, escaped) {
		case exact:
			return p.rule
		case below:
			if slash == nil {
				return p.rule
			}
			return slash
		case slashMissing:
			if slash == nil {
				slash = p.rule
			}
		case different:
		}
	}
	return slash
}

// patternProblem returns the mistake in the pattern of a route, or an empty text.
func (c ServerConfig) patternProblem(i int) string {
	pattern := c.Routes[i].Pattern
	if err := register(pattern); err != nil {
		return "must be a pattern of net/http: " + strings.TrimPrefix(err.Error(), fmt.Sprintf("parsing %q: ", pattern))
	}
	p := parsePattern(pattern)
	if p.method != strings.ToUpper(p.method) {
		return "must have its method as it is sent, as in POST"
	}
	for _, part := range p.segments {
		if part.literal == "*" {
			return "must not have a *, which is no wildcard in a pattern of net/http: write {rest...}"
		}
	}
	for j, earlier := range c.Routes[:i] {
		if register(earlier.Pattern) == nil && register(earlier.Pattern, pattern) != nil {
			return fmt.Sprintf("must not conflict with Routes[%d], %q: neither is more specific", j, earlier.Pattern)
		}
	}
	return ""
}

// register tries patterns on a mux, which panics on those that it does not take.
func register(patterns ...string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			var ok bool
			if err, ok = v.(error); !ok {
				err = errors.New("cannot be parsed")
			}
		}
	}()
	mux := http.NewServeMux()
	for _, p := range patterns {
		mux.Handle(p, http.NotFoundHandler())
	}
	return nil
}

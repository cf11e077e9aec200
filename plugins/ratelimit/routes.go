package ratelimit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gresil/gresil/core/ratelimit"
)

// A rule is what requests are held to: those of a route, or all others.
type rule struct {
	limiter *ratelimit.Limiter
	weight  func(*http.Request) (int64, error) // nil: 1
	tier    func(*http.Request) Limit          // nil: none
	mark    string                             // before the keys, of a route with permits of its own
	name    string                             // of the limit, in headers
	draft   draftText
}

// routes finds the rule for a request by the patterns of net/http.
type routes struct {
	mux   *http.ServeMux
	rules map[string]*rule // by pattern
}

const everything = "/"

// newRoutes is nil when there are none. The patterns are valid.
func newRoutes(rules map[string]*rule) *routes {
	if len(rules) == 0 {
		return nil
	}
	rs := &routes{mux: http.NewServeMux(), rules: rules}
	for pattern := range rules {
		rs.mux.Handle(pattern, http.NotFoundHandler())
	}
	if rules[everything] == nil {
		// With it something always matches, and the mux does not go and collect the
		// methods that would have.
		rs.mux.Handle(everything, http.NotFoundHandler())
	}
	return rs
}

// find returns the rule for r, or nil.
func (rs *routes) find(r *http.Request) *rule {
	if rs == nil {
		return nil
	}
	_, pattern := rs.mux.Handler(r)
	return rs.rules[pattern]
}

// patternProblem says what is wrong with the pattern of a route.
func (c ServerConfig) patternProblem(i int) string {
	pattern := c.Routes[i].Pattern
	if err := register(pattern); err != nil {
		return "must be a pattern of net/http: " + strings.TrimPrefix(err.Error(), fmt.Sprintf("parsing %q: ", pattern))
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
			err = fmt.Errorf("%v", v)
		}
	}()
	mux := http.NewServeMux()
	for _, p := range patterns {
		mux.Handle(p, http.NotFoundHandler())
	}
	return nil
}

// Keys that the key of the config did not find begin with "#", and so does one
// that it did find if it begins with "#" itself: no two of them are ever the same.
const (
	markPlain = "#key:"
	markIP    = "#ip:"
	markRoute = "#route:"
)

// routeMark goes before the keys of a route. It has the length of the pattern, so
// that the pattern cannot run into the key.
func routeMark(pattern string) string {
	return markRoute + strconv.Itoa(len(pattern)) + ":" + pattern + ":"
}

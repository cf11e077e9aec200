package phase

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Problem returns what is wrong with the last of patterns, or an empty text. The ones before it may be invalid themselves.
func Problem(patterns []string) string {
	last := len(patterns) - 1
	pattern := patterns[last]
	if err := register(pattern); err != nil {
		return "must be a pattern of net/http: " + strings.TrimPrefix(err.Error(), fmt.Sprintf("parsing %q: ", pattern))
	}
	if i := strings.IndexAny(pattern, " \t"); i > 0 && pattern[:i] != strings.ToUpper(pattern[:i]) {
		return "must have its method as it is sent, as in POST"
	}
	host := hostOf(pattern)
	if host != strings.ToLower(host) {
		return "must have its host in lower case"
	} else if strings.Contains(host, ":") && host[0] != '[' {
		return "must have a host without a port, and no scheme, which no request would match"
	}
	if strings.HasSuffix(pattern, "/*") || strings.Contains(pattern, "/*/") {
		return "must not have a *, which is no wildcard in a pattern of net/http: write {rest...}"
	}
	for i, earlier := range patterns[:last] {
		if register(earlier) == nil && register(earlier, pattern) != nil {
			return fmt.Sprintf("must not conflict with pattern %d, %q: neither is more specific", i, earlier)
		}
	}
	return ""
}

// hostOf returns the host of a pattern, or "".
func hostOf(pattern string) string {
	host, _, _ := strings.Cut(strings.TrimLeft(pattern[strings.IndexAny(pattern, " \t")+1:], " \t"), "/")
	return host
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

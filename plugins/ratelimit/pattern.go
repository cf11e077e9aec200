package ratelimit

import (
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// A pattern is one of [http.ServeMux]: "[METHOD ][HOST]/[PATH]".
type pattern struct {
	method   string // empty: any
	host     string // empty: any
	segments []segment
	tail     tail
}

type segment struct {
	literal string
	wild    bool
}

// A tail is what may follow the segments.
type tail uint8

const (
	nothing    tail = iota // "/a"
	onlySlash              // "/a/{$}"
	everything             // "/a/" and "/a/{rest...}"
)

// parsePattern parses a pattern that [register] takes.
func parsePattern(s string) pattern {
	var p pattern
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		p.method, s = s[:i], strings.TrimLeft(s[i:], " \t")
	}
	var rest string
	p.host, rest, _ = strings.Cut(s, "/")
	for more := true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		switch {
		case part == "{$}":
			p.tail = onlySlash
		case part == "" && !more, strings.HasSuffix(part, "...}"):
			p.tail = everything
		case strings.HasPrefix(part, "{"):
			p.segments = append(p.segments, segment{wild: true})
		default:
			p.segments = append(p.segments, segment{literal: unescape(part)})
		}
	}
	return p
}

// admits reports whether method and host are those of the pattern, in any case. For headOnly a
// HEAD is no GET.
func (p *pattern) admits(method, host string, headOnly bool) bool {
	if p.method != "" && !strings.EqualFold(p.method, method) && (headOnly || p.method != http.MethodGet || !strings.EqualFold(method, http.MethodHead)) {
		return false
	}
	if p.host == "" {
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.EqualFold(p.host, host) || strings.EqualFold(p.host+".", host) // the root of DNS
}

// A fit is how a path matches a pattern.
type fit uint8

const (
	different    fit = iota
	matching         // as ServeMux has it
	slashMissing     // it would be exact with a slash at the end
	decorated        // it would be exact without extensions and slashes at the end
)

// match matches a path: as ServeMux does, whose paths are percent-encoded and have wildcards
// that match no %2F alone, or as chi does, letter by letter. Two slashes have an empty segment
// between them, which a wildcard of chi matches.
func (p *pattern) match(rest string, inMux bool) fit {
	extended := false
	for i, seg := range p.segments {
		if rest == "" {
			return different
		}
		part := rest[1:]
		if i := strings.IndexByte(part, '/'); i >= 0 {
			part, rest = part[:i], part[i:]
		} else {
			rest = ""
		}
		if inMux {
			part = unescape(part)
		}
		switch {
		case seg.wild:
			if part == "" && rest == "" || part == "/" && inMux {
				return different
			}
		case part == seg.literal:
		case i < len(p.segments)-1:
			return different
		default:
			extension, ok := strings.CutPrefix(part, seg.literal)
			if !ok || extension[0] != '.' {
				return different
			}
			extended = true
		}
	}
	switch {
	case extended:
		if decoration(rest) {
			return decorated
		}
		return different
	case p.tail == nothing && rest == "", p.tail != nothing && rest == "/":
		return matching
	case p.tail != nothing && rest == "":
		return slashMissing
	case p.tail == everything:
		return matching
	case decoration(rest):
		return decorated
	}
	return different
}

// decoration reports whether the end of a path has only slashes and extensions, which
// StripSlashes, CleanPath and URLFormat of chi, or several of them, leave out.
func decoration(rest string) bool {
	for part := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		if part != "" && part[0] != '.' {
			return false
		}
	}
	return true
}

// bySpecificity puts the more specific of two patterns first. Where neither is,
// and both can match one request, they conflict, and are not valid together.
func bySpecificity(a, b pattern) int {
	key := func(p pattern) (k [5]int) {
		if p.host == "" {
			k[0] = 1
		}
		switch p.method {
		case "":
			k[1] = 2
		case http.MethodGet: // HEAD too
			k[1] = 1
		}
		if p.tail == everything {
			k[2], k[3] = 1, -len(p.segments)
		}
		for _, seg := range p.segments {
			if seg.wild {
				k[4]++
			}
		}
		return k
	}
	ka, kb := key(a), key(b)
	return slices.Compare(ka[:], kb[:])
}

// clean returns the path to which a mux redirects p. A clean path is not copied.
func clean(p string) string {
	if p == "" || p[0] != '/' {
		p = "/" + p
	}
	cleaned := path.Clean(p)
	if cleaned != "/" && p[len(p)-1] == '/' {
		if len(p) == len(cleaned)+1 && strings.HasPrefix(p, cleaned) {
			return p
		}
		return cleaned + "/"
	}
	return cleaned
}

func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

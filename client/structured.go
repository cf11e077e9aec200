package client

import "strings"

// An sfMember is one of a list or of a dictionary, in so far as it is of use here.
type sfMember struct {
	name  string // in a dictionary
	value string // as it is written
	r, t  string // its parameters, or empty
}

// sfMembers calls f with each member of a list or a dictionary, and reports whether s is
// one. If it is not, f was called with the members before the mistake.
func sfMembers(s string, f func(sfMember)) bool {
	s = strings.TrimLeft(s, " ")
	for first, dictionary := true, false; ; first = false {
		m, rest, ok := sfMemberOf(s)
		if !ok || !first && dictionary != (m.name != "") {
			return false
		}
		dictionary = m.name != ""
		f(m)
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" || rest[0] != ',' {
			return rest == ""
		}
		s = strings.TrimLeft(rest[1:], " \t")
	}
}

// sfMemberOf reads a member off the left of a structured field (RFC 9651). Inner lists
// and display strings, which have no place in the fields that are read here, are not
// valid.
func sfMemberOf(s string) (m sfMember, rest string, ok bool) {
	if key := sfKey(s); key != "" && strings.HasPrefix(s[len(key):], "=") {
		m.name, s = key, s[len(key)+1:]
	}
	if m.value, s, ok = sfItem(s); !ok {
		return m, s, false
	}
	for strings.HasPrefix(s, ";") {
		s = strings.TrimLeft(s[1:], " ")
		key := sfKey(s)
		if key == "" {
			return m, s, false
		}
		s = s[len(key):]
		value := ""
		if strings.HasPrefix(s, "=") {
			if value, s, ok = sfItem(s[1:]); !ok {
				return m, s, false
			}
		}
		switch key { // of several the last one counts
		case "r":
			m.r = value
		case "t":
			m.t = value
		}
	}
	return m, s, true
}

// sfKey is the key that s begins with, or empty.
func sfKey(s string) string {
	n := span(s, func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 })
	if n > 0 && !isLower(s[0]) && s[0] != '*' {
		return ""
	}
	return s[:n]
}

// sfItem reads an item without parameters.
func sfItem(s string) (value, rest string, ok bool) {
	n := sfOther(s)
	if s != "" && (s[0] == '-' || isDigit(s[0])) {
		n = sfNumber(s)
	}
	return s[:n], s[n:], n > 0
}

// sfOther returns the length of the item that s begins with, or 0 if that is a number or
// not valid.
func sfOther(s string) int {
	switch {
	case s == "":
	case s[0] == '@':
		return sfDate(s)
	case s[0] == '"':
		return sfString(s)
	case s[0] == ':':
		return sfBytes(s)
	case strings.HasPrefix(s, "?0"), strings.HasPrefix(s, "?1"):
		return 2
	case s[0] == '*', isAlpha(s[0]):
		return span(s, func(c byte) bool { return isAlpha(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0 })
	}
	return 0
}

func sfDate(s string) int {
	n := 1 + span(s[1:], func(c byte) bool { return c == '-' || isDigit(c) })
	if n == 1 || sfNumber(s[1:n]) != n-1 || strings.HasPrefix(s[n:], ".") {
		return 0
	}
	return n
}

func sfString(s string) int {
	for n := 1; n < len(s); n++ {
		switch c := s[n]; {
		case c == '"':
			return n + 1
		case c < ' ', c > '~':
			return 0
		case c == '\\':
			if n++; n == len(s) || s[n] != '"' && s[n] != '\\' {
				return 0
			}
		}
	}
	return 0
}

func sfBytes(s string) int {
	n := 1 + span(s[1:], func(c byte) bool { return isAlpha(c) || isDigit(c) || strings.IndexByte("+/=", c) >= 0 })
	if n == len(s) || s[n] != ':' {
		return 0
	}
	return n + 1
}

// sfNumber returns the length of the integer of up to 15 digits, or of the decimal, that s
// begins with, or 0.
func sfNumber(s string) int {
	sign := len(s) - len(strings.TrimPrefix(s, "-"))
	n := sign + span(s[sign:], isDigit)
	digits := n - sign
	if strings.HasPrefix(s[n:], ".") {
		fraction := span(s[n+1:], isDigit)
		if digits < 1 || digits > 12 || fraction < 1 || fraction > 3 {
			return 0
		}
		return n + 1 + fraction
	}
	if digits < 1 || digits > 15 {
		return 0
	}
	return n
}

// span is how many bytes at the left of s are of a kind.
func span(s string, kind func(byte) bool) int {
	for i := range len(s) {
		if !kind(s[i]) {
			return i
		}
	}
	return len(s)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }

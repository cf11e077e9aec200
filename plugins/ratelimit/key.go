package ratelimit

import (
	"net/http"
	"strconv"
	"strings"
)

// Keys of routes and layers begin with "#", and so does one that the Key of the config found if it begins with "#" itself: no two
// of them are ever the same.
const (
	markPlain = "#key:"
	markRoute = "#route:"
	markLayer = "#layer:"
)

// marked goes before the keys of a route or a layer. It has the length of the
// name, so that the name cannot run into the key.
func marked(mark, name string) string {
	return mark + strconv.Itoa(len(name)) + ":" + name + ":"
}

// keyOf returns the key of r under a rule. It is false for a request without a key.
func (s *settings) keyOf(u *rule, r *http.Request) (string, bool) {
	key, ok := s.key(r)
	return u.mark + escape(key), ok
}

// escape marks a key that looks like a mark itself.
func escape(key string) string {
	if strings.HasPrefix(key, "#") {
		return markPlain + key
	}
	return key
}

package redisbatch

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxPlain is the length of the longest name of a method that is written unchanged.
const maxPlain = 64

// plain reports whether a text has only letters, digits, "-._" and, if colons are allowed, ":".
func plain(s string, colons bool) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		case colons && c == ':':
		default:
			return false
		}
	}
	return true
}

// keyPrefix returns the first part of the names of all keys of a method. In a Cluster, the text in
// braces chooses the slot, so all keys of a method have one. A method that is long or not plain is
// written as a hash. An option is the last part of a name and is written unchanged, so no two names
// are equal.
func keyPrefix(prefix, method string) string {
	name := "=" + method
	if len(method) > maxPlain || !plain(method, false) {
		sum := sha256.Sum256([]byte(method))
		name = "#" + hex.EncodeToString(sum[:16])
	}
	return prefix + ":{" + name + "}:"
}

package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxPlain is the length of the longest text that is written unchanged.
const maxPlain = 64

// plain reports whether a text consists of letters, digits, "-._" and the characters in more.
func plain(s, more string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		case strings.IndexByte(more, c) >= 0:
		default:
			return false
		}
	}
	return true
}

// escape returns a text as a part of a name: "=" and the text if it is short and plain, otherwise "#" and a hash. It is
// as injective as the hash.
func escape(s, more string, hash bool) string {
	if !hash && len(s) <= maxPlain && plain(s, more) {
		return "=" + s
	}
	sum := sha256.Sum256([]byte(s))
	return "#" + hex.EncodeToString(sum[:16])
}

// keyPrefix returns the first part of the names of the keys of a table. In a Cluster, the text in braces determines the
// slot.
func keyPrefix(prefix, table string) string { return prefix + ":{" + escape(table, "", false) + ":" }

func keyName(prefix, key string, hash bool) string {
	const more = ":@/+,;|~ "
	if !hash && len(key) <= maxPlain && plain(key, more) {
		return prefix + "=" + key + "}" // the same as below, in one allocation
	}
	return prefix + escape(key, more, hash) + "}"
}

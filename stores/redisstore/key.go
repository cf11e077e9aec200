package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxPlain is the longest text that is written as it is.
const maxPlain = 64

// plain tells whether a text is only of letters, digits, "-._" and those of more.
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

// escape is a text as part of a name: itself behind an "=" if it is short and plain, else
// a hash behind a "#". It is injective as far as the hash is.
func escape(s, more string, hash bool) string {
	if !hash && len(s) <= maxPlain && plain(s, more) {
		return "=" + s
	}
	sum := sha256.Sum256([]byte(s))
	return "#" + hex.EncodeToString(sum[:16])
}

// keyPrefix is what the names of the keys of a table begin with. What stands in braces
// chooses the slot in a cluster.
func keyPrefix(prefix, table string) string { return prefix + ":{" + escape(table, "", false) + ":" }

func keyName(prefix, key string, hash bool) string {
	const more = ":@/+,;|~ "
	if !hash && len(key) <= maxPlain && plain(key, more) {
		return prefix + "=" + key + "}" // as below, in one allocation
	}
	return prefix + escape(key, more, hash) + "}"
}

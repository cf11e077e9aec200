// Package peer reads the address of the peer of a request.
package peer

// IPv4 returns the IP of remoteAddr if that is an IPv4 address with a port, as net/http
// writes it, and false otherwise. net/netip accepts every address that IPv4 accepts and
// writes it in the same way: an IPv4 address has one spelling, so it can be a key
// without parsing.
func IPv4(remoteAddr string) (ip string, ok bool) {
	dots, digits, value := 0, 0, 0
	for i := 0; i < len(remoteAddr); i++ {
		switch c := remoteAddr[i]; {
		case c >= '0' && c <= '9':
			if digits > 0 && value == 0 {
				return "", false // a leading zero
			}
			value = value*10 + int(c-'0')
			if digits++; value > 255 {
				return "", false
			}
		case digits == 0 || c != '.' && c != ':':
			return "", false
		case c == '.':
			if dots++; dots > 3 {
				return "", false
			}
			digits, value = 0, 0
		default:
			return remoteAddr[:i], dots == 3 && IsPort(remoteAddr[i+1:])
		}
	}
	return "", false
}

// IsPort reports whether s is a number.
func IsPort(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

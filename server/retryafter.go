package server

import (
	"net/http"
	"strconv"
	"time"
)

// SetRetryAfter sets Retry-After to d in seconds, rounded up and at least 1. A
// negative d means that waiting does not help, and the field is removed.
func SetRetryAfter(h http.Header, d time.Duration) {
	if d < 0 {
		delete(h, "Retry-After")
		return
	}
	h["Retry-After"] = []string{seconds(d)}
}

// seconds is d in seconds, rounded up and at least 1; of a negative d it is not used.
func seconds(d time.Duration) string {
	n := d / time.Second
	if d%time.Second > 0 || n == 0 {
		n++
	}
	return strconv.FormatInt(int64(n), 10)
}

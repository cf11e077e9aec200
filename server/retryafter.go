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
	seconds := d / time.Second
	if d%time.Second > 0 || seconds == 0 {
		seconds++
	}
	h["Retry-After"] = []string{strconv.FormatInt(int64(seconds), 10)}
}

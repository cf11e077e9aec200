package request

import "net/http"

// HasIdempotencyKey reports whether req has an Idempotency-Key or X-Idempotency-Key header,
// also without a value.
func HasIdempotencyKey(req *http.Request) bool {
	_, ok := req.Header["Idempotency-Key"]
	if !ok {
		_, ok = req.Header["X-Idempotency-Key"]
	}
	return ok
}

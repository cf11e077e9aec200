package ratelimit_test

// with returns a copy of a Config, changed by f.
func with[C any](c C, f func(*C)) C {
	f(&c)
	return c
}

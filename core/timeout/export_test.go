package timeout

// Err is for the tests of this package.
func (t *Timeout) Err() *Error { return t.cause() }

package breaker

import "context"

type overrideKey[P any] struct{ plugin *P } // one key per instance: another plugin under the same ctx is untouched

func override[P, C any](ctx context.Context, key overrideKey[P], f func(*C)) context.Context {
	if f == nil {
		return ctx
	}
	if outer, ok := ctx.Value(key).(func(*C)); ok {
		inner := f
		f = func(call *C) { outer(call); inner(call) }
	}
	return context.WithValue(ctx, key, f)
}

// overridden is what the overrides of a plugin make of a zero C.
func overridden[C, P any](ctx context.Context, key overrideKey[P]) (call C) {
	if f, ok := ctx.Value(key).(func(*C)); ok {
		return applied(f)
	}
	return call
}

// applied is apart, since what it gives to f is on the heap.
func applied[C any](f func(*C)) C {
	var call C
	f(&call)
	return call
}

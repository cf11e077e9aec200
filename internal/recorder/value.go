package recorder

import "net/http"

// A Valuer is a ResponseWriter that finds values of the request for [Value]. A writer
// that wraps another one and has no Unwrap implements it by passing the call on:
//
//	func (w *writer) Value(key any) any { return recorder.Value(w.outer, key) }
//
// Value can be called by any goroutine, also after the response is complete.
type Valuer interface{ Value(key any) any }

// Value returns the value that the innermost plugin around w attached to the request
// under key, or nil. As with a [context.Context], a key has a type of the package that attaches the
// value. Value finds outer writers through Unwrap, as [http.NewResponseController] does,
// and through [Valuer]. It returns nil where a middleware in between has a writer with
// neither.
//
// A plugin attaches values by passing an observer with a method Value to
// [Recorder.Observe]. Unlike a value of a context this needs no copy of the request.
func Value(w http.ResponseWriter, key any) any {
	for {
		if v, ok := w.(Valuer); ok {
			if value := v.Value(key); value != nil {
				return value
			}
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = u.Unwrap()
	}
}

// Value returns the value of the observer for key, or nil. Use the function [Value],
// which finds those of the outer writers too.
func (rec *Recorder) Value(key any) any {
	if v, ok := rec.observer.(Valuer); ok {
		return v.Value(key)
	}
	return nil
}

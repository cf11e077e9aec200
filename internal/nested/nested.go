// Package nested recognizes a request at the inner handlers of a plugin that has several:
// the outermost decides. It is for requests whose writer does not show the outer handler.
package nested

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/gresil/gresil/internal/identity"
)

// An Exchange is the state of a request at the outermost handler.
type Exchange interface {
	// InContext returns the value of the request for a key of its context, or nil. It
	// returns the Exchange for the key by which [Claim] finds it.
	InContext(key any) any
	// String keeps the request out of the text of its context.
	String() string
}

// A Visit is the context and the copy of a request that has its Exchange in its context,
// in one allocation.
type Visit struct {
	context.Context //nolint:containedctx // it is one
	exchange        Exchange
	path            string       // before any change by the handler
	request         http.Request // of the handler
	claimed         atomic.Bool
}

// Enter returns a copy of r for the handler, whose context has x.
func Enter(x Exchange, r *http.Request) *Visit {
	v := &Visit{Context: r.Context(), exchange: x}
	if r.URL != nil {
		v.path = r.URL.Path
	}
	v.request = *r.WithContext(v) //nolint:contextcheck // it is inlined: the copy is made in place
	return v
}

// Request returns the request of the handler.
func (v *Visit) Request() *http.Request { return &v.request }

// Leave sets the MultipartForm and Pattern of the copy on r: net/http, which removes the
// files, and outer logs and metrics read them from the original.
func (v *Visit) Leave(r *http.Request) {
	if r.MultipartForm == nil {
		r.MultipartForm = v.request.MultipartForm
	}
	if v.request.Pattern != "" {
		r.Pattern = v.request.Pattern
	}
}

// Pass serves r if an outer handler of a plugin has its Exchange under key, and reports
// whether it did. If shown, the writer has it. If a middleware hides that writer, the context
// has it, unless the plugin has a single handler and several is false.
func Pass(shown, several bool, key any, w http.ResponseWriter, r *http.Request, next http.Handler) bool {
	if shown {
		next.ServeHTTP(w, r)
		return true
	}
	if !several {
		return false
	}
	x := Claim(r, key)
	if x != nil {
		Serve(x, w, r, next)
	}
	return x != nil
}

// Serve calls next with a copy of r whose context has x.
func Serve(x Exchange, w http.ResponseWriter, r *http.Request, next http.Handler) {
	v := Enter(x, r)
	defer v.Leave(r)
	next.ServeHTTP(w, v.Request())
}

// String keeps the request out of the text of its context.
func (v *Visit) String() string { return v.exchange.String() }

// Value finds the Visit by the key of its Exchange, and the values of the Exchange.
func (v *Visit) Value(key any) any {
	switch value := v.exchange.InContext(key); value {
	case nil:
		return v.Context.Value(key)
	case v.exchange:
		return v
	default:
		return value
	}
}

// Claim returns the Exchange of r under key, or nil if r is another request: a handler can
// use the context for requests of its own. The result is for [Serve]: each Visit can be
// claimed once, so of many requests that share their header only one passes.
func Claim(r *http.Request, key any) Exchange {
	v, ok := r.Context().Value(key).(*Visit)
	if !ok || !v.serves(r) || !v.claimed.CompareAndSwap(false, true) {
		return nil
	}
	return v.exchange
}

// serves reports whether r is the request of v, or a copy by a middleware: it has the same
// header or body, and the same target. On the way to r the beginning of the path may be
// cut off, as by http.StripPrefix.
func (v *Visit) serves(r *http.Request) bool {
	was := &v.request
	if r.URL == nil || was.URL == nil || r.Method != was.Method || r.URL.RawQuery != was.URL.RawQuery {
		return false
	}
	return strings.HasSuffix(v.path, r.URL.Path) && (sameMap(r.Header, was.Header) || sameBody(r, was))
}

func sameMap(a, b http.Header) bool {
	return a != nil && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

func sameBody(a, b *http.Request) bool {
	return a.Body != nil && a.Body != http.NoBody && identity.Comparable(a.Body) && a.Body == b.Body
}

package ratelimit

import (
	"context"
	"net/http"
	"strings"
)

// A visit is the context and the copy of a request that has its exchange in its context,
// in one allocation.
type visit struct {
	context.Context //nolint:containedctx // it is one
	x               *exchange
	request         http.Request // of the handler
}

// serveCopy gives the handler a copy of the request whose context has the exchange.
func (x *exchange) serveCopy(w http.ResponseWriter, r *http.Request, next http.Handler) {
	v := &visit{Context: r.Context(), x: x}
	v.request = *r.WithContext(v) //nolint:contextcheck // it is inlined: the copy is made in place
	inner := &v.request
	defer func() {
		// The handler sets these on the copy. net/http, which removes the files, and
		// outer logs and metrics read them from the original.
		if r.MultipartForm == nil {
			r.MultipartForm = inner.MultipartForm
		}
		if inner.Pattern != "" {
			r.Pattern = inner.Pattern
		}
	}()
	next.ServeHTTP(w, inner)
}

// String keeps the request out of the text of its context.
func (v *visit) String() string { return "ratelimit.Server(" + v.x.rule.set.Name() + ")" }

// Value finds the exchange, the charge if the ServerConfig says so, and outer values.
func (v *visit) Value(key any) any {
	switch key.(type) {
	case exchangeKey:
		if v.x.Value(key) != nil {
			return v
		}
	case chargeKey:
		if v.x.rule.set.cfg.ChargeInContext {
			if charge := v.x.Value(key); charge != nil {
				return charge
			}
		}
	}
	return v.Context.Value(key)
}

// hidden reports whether r is the request of v. Their writers do not show it: one in
// between has no Unwrap. The context alone does not show it either: a handler can use it
// for requests of its own, which have another target. On the way to r the beginning of
// the path may be cut off, as by http.StripPrefix.
func (v *visit) hidden(r *http.Request) bool {
	was := &v.request
	return r.Method == was.Method && r.URL.RawQuery == was.URL.RawQuery && strings.HasSuffix(was.URL.Path, r.URL.Path)
}

package request

import (
	"context"
	"net/http"
)

// Outlive is [Restore] for a sent request whose context ends with the body. A request that an
// inner transport made with a context derived from it keeps the values of that context, which
// then ends only when the caller's does. key finds in a context the innermost layer of its
// kind: the value of sent is the layer that sent it. It can be nil.
func Outlive(resp *http.Response, sent, caller *http.Request, key any) {
	switch {
	case resp == nil || resp.Request == nil || resp.Request == caller:
	case resp.Request == sent:
		resp.Request = caller
	case resp.Request.Context().Value(key) == sent.Context().Value(key):
		resp.Request = WithContext(resp.Request, outliving{Context: caller.Context(), values: context.WithoutCancel(resp.Request.Context()), key: key}) //nolint:contextcheck // it outlives the exchange
	}
}

// An outliving context has the values of another one, but for that of key, and ends with its parent.
type outliving struct {
	context.Context //nolint:containedctx // the caller's
	values          context.Context
	key             any
}

func (o outliving) Value(key any) any {
	if key != o.key {
		if v := o.values.Value(key); v != nil {
			return v
		}
	}
	return o.Context.Value(key)
}

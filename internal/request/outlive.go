package request

import (
	"context"
	"net/http"
)

// Outlive is [Restore] for a sent request whose context ends with the body. A request that an
// inner transport made with a context derived from it keeps the values of that context, which
// then ends only when the caller's does. key finds in a context the innermost layer of its
// kind: the value of sent is the layer that sent it.
func Outlive(resp *http.Response, sent, caller *http.Request, key any) {
	switch {
	case resp == nil || resp.Request == nil:
	case resp.Request == sent:
		resp.Request = caller
	case resp.Request.Context().Value(key) == sent.Context().Value(key):
		resp.Request = WithContext(resp.Request, outliving{Context: caller.Context(), values: resp.Request.Context(), key: key}) //nolint:contextcheck // it outlives the exchange
	}
}

// An outliving context has the values of another one, but for those of key and of package context,
// and ends with its parent.
type outliving struct {
	context.Context //nolint:containedctx // the caller's
	values          context.Context
	key             any
}

func (o outliving) Value(key any) any {
	if key == o.key || key == cancelKey {
		return o.Context.Value(key)
	}
	return o.values.Value(key)
}

// cancelKey is the key by which package context finds the context whose cause [context.Cause]
// returns. That one must be the caller's: the other one ends with the body.
var cancelKey = func() any { //nolint:gochecknoglobals // a constant
	p := &probe{Context: context.Background()}
	_ = context.Cause(p)
	return p.key
}()

// A probe is an ended context that keeps the key of the last lookup.
type probe struct {
	context.Context //nolint:containedctx // none
	key             any
}

// Err makes [context.Cause] look up a value.
func (*probe) Err() error { return context.Canceled }

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}

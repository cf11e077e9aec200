package roundtrip

import (
	"context"
	"net/http"
)

type limitKey struct{}

// WithLimit returns a context under which inner layers learn by [Limited] what an outer one takes for a refusal by a limit.
func WithLimit(ctx context.Context, limited func(*http.Response) bool) context.Context {
	return context.WithValue(ctx, limitKey{}, limited)
}

// Limited reports whether an outer layer takes a response for a refusal by a limit, and keeps the pause that it asks for.
func Limited(ctx context.Context, resp *http.Response) bool {
	limited, _ := ctx.Value(limitKey{}).(func(*http.Response) bool)
	return limited != nil && limited(resp)
}

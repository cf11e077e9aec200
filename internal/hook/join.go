package hook

import "context"

// Join returns a hook that calls first and then second, which is called even when
// the first one panics. Where one is nil it is the other.
func Join[I any](first, second func(context.Context, I)) func(context.Context, I) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, info I) {
		defer second(ctx, info)
		first(ctx, info)
	}
}

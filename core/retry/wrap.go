package retry

import "context"

// Wrap returns a function of the same signature that runs f with [Do].
func Wrap[T any](p *Policy, f func(context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) { return Do(ctx, p, f) }
}

// Wrap1 is [Wrap] for a function with an argument, which is the same for each
// attempt.
func Wrap1[A, T any](p *Policy, f func(context.Context, A) (T, error)) func(context.Context, A) (T, error) {
	return func(ctx context.Context, a A) (T, error) {
		return Do(ctx, p, func(ctx context.Context) (T, error) { return f(ctx, a) })
	}
}

// Wrap2 is [Wrap] for a function with two arguments.
func Wrap2[A, B, T any](p *Policy, f func(context.Context, A, B) (T, error)) func(context.Context, A, B) (T, error) {
	return func(ctx context.Context, a A, b B) (T, error) {
		return Do(ctx, p, func(ctx context.Context) (T, error) { return f(ctx, a, b) })
	}
}

// WrapPlain is [Wrap] for a function that takes no context. Its waits cannot be canceled.
func WrapPlain[T any](p *Policy, f func() (T, error)) func() (T, error) {
	return func() (T, error) {
		return Do(context.Background(), p, func(context.Context) (T, error) { return f() })
	}
}

// WrapPlain1 is [WrapPlain] for a function with an argument.
func WrapPlain1[A, T any](p *Policy, f func(A) (T, error)) func(A) (T, error) {
	return func(a A) (T, error) {
		return Do(context.Background(), p, func(context.Context) (T, error) { return f(a) })
	}
}

// WrapPlain2 is [WrapPlain] for a function with two arguments.
func WrapPlain2[A, B, T any](p *Policy, f func(A, B) (T, error)) func(A, B) (T, error) {
	return func(a A, b B) (T, error) {
		return Do(context.Background(), p, func(context.Context) (T, error) { return f(a, b) })
	}
}

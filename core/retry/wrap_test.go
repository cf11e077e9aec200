package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// Functions with and without arguments; the signature stays.
func TestDecorators(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	attempts := 0
	third := func(s string) (string, error) {
		if attempts++; attempts%3 != 0 {
			return "", errBoom
		}
		return s, nil
	}
	inContext := func(ctx context.Context, s string) (string, error) {
		require.Equal(t, attempts%3, retry.FromContext(ctx).Retry)
		if attempts%3 > 0 {
			require.ErrorIs(t, retry.FromContext(ctx).Err, errBoom)
		}
		require.Equal(t, "the caller's", ctx.Value(callerKey{}))
		return third(s)
	}
	ctx := context.WithValue(t.Context(), callerKey{}, "the caller's")

	wrapped := func(ctx context.Context) (string, error) {
		return retry.Do(ctx, p, func(ctx context.Context) (string, error) { return inContext(ctx, "none") })
	}
	withArguments := func(ctx context.Context, n int, s string) (string, error) {
		return retry.Do(ctx, p, func(ctx context.Context) (string, error) { return inContext(ctx, fmt.Sprint(n, s)) })
	}
	for want, call := range map[string]func() (string, error){
		"none": func() (string, error) { return wrapped(ctx) },
		"2two": func() (string, error) { return withArguments(ctx, 2, "two") },
	} {
		before := attempts
		got, err := call()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, 3, attempts-before)
	}
	require.EqualValues(t, 2, p.Stats().Recovered)
}

type callerKey struct{}

func TestTheReturnValueOfTheHandlerIsTheError(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handler func(error) error
		end     error
		want    error
	}{
		"another one":  {func(err error) error { return errors.Join(errWeb, err) }, errBoom, errWeb},
		"the same":     {func(err error) error { return err }, errBoom, errBoom},
		"none":         {func(error) error { return nil }, errBoom, nil},
		"not asked":    {func(error) error { t.Error("asked"); return nil }, nil, nil},
		"first failed": {func(error) error { return errWeb }, rejection{-1}, errWeb},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, Map: retry.MapError(tt.handler)}))
			got, err := retry.Do(t.Context(), p, func(context.Context) (int, error) { return 7, tt.end })
			if tt.want == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, tt.want)
			}
			require.Equal(t, 7, got, "the result stays")
		})
	}
}

func TestPredicatesDecideAboutErrorsAndResults(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{
		MaxAttempts: 9, Backoff: backoff.Constant{},
		RetryIf:     func(err error) bool { return errors.Is(err, errBoom) || errors.Is(err, errWeb) },
		RetryResult: func(v any) bool { return v != "" && v != "fine" },
	}))
	op := &script{ends: []error{errBoom, errWeb, errors.New("another")}}
	_, err := retry.Do(t.Context(), p, op.run)
	require.EqualError(t, err, "another")
	require.Equal(t, 3, op.calls)
	got, err := retry.Do(t.Context(), p, (&script{ends: []error{errBoom, nil}}).run)
	require.NoError(t, err)
	require.Equal(t, "fine", got)
}

func TestMapErrorOfNilChangesNothing(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{MaxAttempts: 1, Map: retry.MapError(nil)}))
	_, err := retry.Do(t.Context(), p, (&script{ends: []error{errBoom}}).run)
	require.Equal(t, errBoom, err)
}

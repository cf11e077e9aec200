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

// Functions with and without arguments and context; the signature stays.
func TestDecorators(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.None{}}))
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

	var ( // of the same types as what is wrapped
		w0 func(context.Context) (string, error)
		w1 func(context.Context, int) (string, error)
		w2 func(context.Context, int, string) (string, error)
		p0 func() (string, error)
		p1 func(int) (string, error)
		p2 func(int, string) (string, error)
	)
	w0 = retry.Wrap(p, func(ctx context.Context) (string, error) { return inContext(ctx, "none") })
	w1 = retry.Wrap1(p, func(ctx context.Context, n int) (string, error) { return inContext(ctx, fmt.Sprint(n)) })
	w2 = retry.Wrap2(p, func(ctx context.Context, n int, s string) (string, error) { return inContext(ctx, fmt.Sprint(n, s)) })
	p0 = retry.WrapPlain(p, func() (string, error) { return third("none") })
	p1 = retry.WrapPlain1(p, func(n int) (string, error) { return third(fmt.Sprint(n)) })
	p2 = retry.WrapPlain2(p, func(n int, s string) (string, error) { return third(fmt.Sprint(n, s)) })

	for want, call := range map[string]func() (string, error){
		"none":  func() (string, error) { return w0(ctx) },
		"1":     func() (string, error) { return w1(ctx, 1) },
		"2two":  func() (string, error) { return w2(ctx, 2, "two") },
		"none ": func() (string, error) { s, err := p0(); return s + " ", err },
		"3":     func() (string, error) { return p1(3) },
		"4four": func() (string, error) { return p2(4, "four") },
	} {
		before := attempts
		got, err := call()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, 3, attempts-before)
	}
	require.EqualValues(t, 6, p.Stats().Recovered)
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
			p := core.Must(retry.New(retry.Config{Backoff: backoff.None{}, Map: retry.MapError(tt.handler)}))
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

func TestAnyAndAll(t *testing.T) {
	t.Parallel()
	asked := ""
	is := func(name string, holds bool) func(string) bool {
		return func(v string) bool { asked += name + v + " "; return holds }
	}
	yes, no := is("y", true), is("n", false)
	for _, tt := range []struct {
		name  string
		f     func(string) bool
		want  bool
		asked string
	}{
		{"any of none", retry.Any[string](), false, ""},
		{"all of none", retry.All[string](), true, ""},
		{"any of nil", retry.Any[string](nil, nil), false, ""},
		{"all of nil", retry.All[string](nil), true, ""},
		{"any", retry.Any(no, yes, no), true, "n! y! "},
		{"any, no", retry.Any(no, nil, no), false, "n! n! "},
		{"all", retry.All(yes, nil, yes), true, "y! y! "},
		{"all, no", retry.All(yes, no, yes), false, "y! n! "},
		{"nested", retry.All(retry.Any(no, yes), retry.Any(yes)), true, "n! y! y! "},
	} {
		asked = ""
		require.Equal(t, tt.want, tt.f("!"), tt.name)
		require.Equal(t, tt.asked, asked, tt.name)
	}
	predicates := []func(string) bool{yes}
	f := retry.Any(predicates...)
	predicates[0] = no
	require.True(t, f("?"), "a copy")
}

func TestAnyDecidesAboutErrorsAndResults(t *testing.T) {
	t.Parallel()
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	p := core.Must(retry.New(retry.Config{
		MaxAttempts: 9, Backoff: backoff.None{},
		RetryIf:     retry.Any(is(errBoom), is(errWeb)),
		RetryResult: retry.All(func(v any) bool { return v != "" }, func(v any) bool { return v != "fine" }),
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

package core_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/registry"
)

// rejection is an error that asks for a wait.
type rejection time.Duration

func (r rejection) Error() string             { return "rejected" }
func (r rejection) Is(target error) bool      { return target == core.ErrRejected }
func (r rejection) RetryAfter() time.Duration { return time.Duration(r) }

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	for name, c := range map[string]struct {
		err  error
		want time.Duration
		ok   bool
	}{
		"nil":              {nil, 0, false},
		"plain":            {plain, 0, false},
		"direct":           {rejection(3), 3, true},
		"zero":             {rejection(0), 0, true},
		"never":            {rejection(-1), 0, false},
		"wrapped":          {fmt.Errorf("call: %w", rejection(3)), 3, true},
		"joined":           {errors.Join(plain, rejection(2), rejection(7), rejection(5)), 7, true},
		"joined deep":      {fmt.Errorf("%w and %w", errors.Join(rejection(1)), fmt.Errorf("x: %w", rejection(9))), 9, true},
		"never and a wait": {errors.Join(rejection(-1), rejection(4)), 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := core.RetryAfter(c.err)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.want, got)
		})
	}
}

type number int

func (number) String() string { return "a number" }

// A ConfigError prints plain values, and of others the type: their memory may be changing.
func TestConfigError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, "<nil>"},
		{-5, "-5"},
		{0.5, "0.5"},
		{true, "true"},
		{"text", "text"},
		{time.Second, "1s"},
		{number(1), "a number"},
		{[]int{1}, "[]int"},
		{map[string]int{"a": 1}, "map[string]int"},
		{struct{ n int }{1}, "struct { n int }"},
		{&core.Registry{}, "*core.Registry"},
		{(&core.Registry{}).All, "func() iter.Seq[github.com/gresil/gresil/core.Entry]"},
	} {
		err := error(&core.ConfigError{Field: "retry.Config.X", Value: c.value, Reason: "must be >= 0 (0 means 3)"})
		require.EqualError(t, err, "retry.Config.X = "+c.want+": must be >= 0 (0 means 3)")
		require.ErrorIs(t, err, core.ErrConfig)
		require.NotErrorIs(t, err, core.ErrRejected)
	}
}

func TestConfigErrorDuringChanges(t *testing.T) {
	t.Parallel()
	r := &registry.Registry{}
	err := error(&core.ConfigError{Field: "f", Value: (*core.Registry)(r), Reason: "no"})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 2000 {
			if _, err := r.Add(registry.Entry{Kind: "kind", Name: strconv.Itoa(i), Instance: &i}); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2000 {
		for _, verb := range []string{"%v", "%+v", "%s", "%q", "%x"} {
			if fmt.Sprintf(verb, err) == "" {
				t.Error("no text")
			}
		}
	}
	wg.Wait()
}

func TestErrClosed(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("call: %w", core.ErrClosed)
	require.EqualError(t, err, "call: closed")
	require.ErrorIs(t, err, core.ErrClosed)
	require.ErrorIs(t, err, core.ErrRejected)
	require.NotErrorIs(t, core.ErrRejected, core.ErrClosed)
	require.True(t, blame.Hopeless(err), "waiting does not help")
}

func TestPermanent(t *testing.T) {
	t.Parallel()
	require.NoError(t, core.Permanent(nil))
	err := core.Permanent(rejection(3))
	require.EqualError(t, err, "rejected")
	require.ErrorIs(t, err, rejection(3))
	require.True(t, blame.Permanent(fmt.Errorf("call: %w", errors.Join(errors.New("x"), err))))
	require.False(t, blame.Permanent(rejection(3)))
	err = fmt.Errorf("load: %w", core.Permanent(errors.New("no such user")))
	require.EqualError(t, err, "load: no such user")
	_, ok := core.RetryAfter(err)
	require.False(t, ok, "waiting does not help")
}

func TestMust(t *testing.T) {
	t.Parallel()
	require.Equal(t, 7, core.Must(7, nil))
	require.PanicsWithError(t, "no", func() { core.Must(0, errors.New("no")) })
}

package backoff_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
)

// fields lists what the joined errors name.
func fields(t *testing.T, err error) (all []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			all = append(all, fields(t, e)...)
		}
		return all
	}
	var bad *core.ConfigError
	require.ErrorAs(t, err, &bad)
	require.ErrorIs(t, err, core.ErrConfig)
	return []string{bad.Field}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	s, nan, inf := time.Second, math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		name string
		s    backoff.Strategy
		want []string // fields, without "backoff."
	}{
		{"none", backoff.None{}, nil},
		{"func", backoff.Func(func(int, time.Duration) time.Duration { return 0 }), nil},
		{"nil stands for a default", nil, nil},
		{"func, nil", backoff.Func(nil), []string{"Strategy"}},
		{"nil pointer", (*backoff.Exponential)(nil), []string{"Strategy"}},
		{"pointer", &backoff.Exponential{Initial: s}, nil},
		{"pointer to a bad one", &backoff.Exponential{}, []string{"Exponential.Initial"}},
		{"full jitter of a nil func", backoff.FullJitter(backoff.Func(nil), nil), []string{"Strategy"}},
		{"equal jitter of a nil pointer", backoff.EqualJitter((*backoff.Linear)(nil), nil), []string{"Strategy"}},
		{"constant 0", backoff.Constant{}, nil},
		{"constant, negative", backoff.Constant{Wait: -500 * ms}, []string{"Constant.Wait"}},
		{"jitter 1", backoff.Constant{Jitter: 1}, nil},
		{"jitter above 1", backoff.Constant{Jitter: 1.1}, []string{"Constant.Jitter"}},
		{"jitter below 0", backoff.Constant{Jitter: -0.1}, []string{"Constant.Jitter"}},
		{"jitter NaN", backoff.Constant{Jitter: nan}, []string{"Constant.Jitter"}},
		{"constant, both", backoff.Constant{Wait: -1, Jitter: 2}, []string{"Constant.Wait", "Constant.Jitter"}},
		{"linear", backoff.Linear{Initial: s, Multiplier: 0.1, Max: 2 * s, Jitter: 0.5}, nil},
		{"linear, initial 0", backoff.Linear{}, []string{"Linear.Initial"}},
		{"linear, negative cap", backoff.Linear{Initial: s, Max: -time.Minute}, []string{"Linear.Max"}},
		{"linear, negative multiplier", backoff.Linear{Initial: s, Multiplier: -0.1}, []string{"Linear.Multiplier"}},
		{"linear, multiplier NaN", backoff.Linear{Initial: s, Multiplier: nan}, []string{"Linear.Multiplier"}},
		{"linear, multiplier infinite", backoff.Linear{Initial: s, Multiplier: inf}, []string{"Linear.Multiplier"}},
		{"linear, all", backoff.Linear{Initial: -1, Multiplier: -1, Max: -1, Jitter: nan}, []string{"Linear.Initial", "Linear.Multiplier", "Linear.Max", "Linear.Jitter"}},
		{"exponential", backoff.Exponential{Initial: s, Multiplier: 1.01, Max: 2 * s, Jitter: 0.5}, nil},
		{"exponential, initial 0", backoff.Exponential{}, []string{"Exponential.Initial"}},
		{"exponential, initial negative", backoff.Exponential{Initial: -2 * s}, []string{"Exponential.Initial"}},
		{"exponential, multiplier 1", backoff.Exponential{Initial: s, Multiplier: 1}, []string{"Exponential.Multiplier"}},
		{"exponential, multiplier below 1", backoff.Exponential{Initial: s, Multiplier: 0.5}, []string{"Exponential.Multiplier"}},
		{"exponential, multiplier NaN", backoff.Exponential{Initial: s, Multiplier: nan}, []string{"Exponential.Multiplier"}},
		{"exponential, multiplier infinite", backoff.Exponential{Initial: s, Multiplier: inf}, []string{"Exponential.Multiplier"}},
		{"exponential, cap below initial", backoff.Exponential{Initial: 10 * s, Max: 5 * s}, []string{"Exponential.Max"}},
		{"exponential, cap equal to initial", backoff.Exponential{Initial: s, Max: s}, nil},
		{"exponential, cap just below initial", backoff.Exponential{Initial: s, Max: s - 1}, []string{"Exponential.Max"}},
		{"linear, cap equal to initial", backoff.Linear{Initial: s, Max: s}, nil},
		{"decorrelated, cap equal to base", backoff.Decorrelated{Base: s, Max: s}, nil},
		{"exponential, all", backoff.Exponential{Multiplier: -1, Max: -1, Jitter: 9}, []string{"Exponential.Initial", "Exponential.Multiplier", "Exponential.Max", "Exponential.Jitter"}},
		{"decorrelated", backoff.Decorrelated{Base: s, Max: 2 * s}, nil},
		{"decorrelated, both", backoff.Decorrelated{Base: 0, Max: -1}, []string{"Decorrelated.Base", "Decorrelated.Max"}},
		{"full jitter of nil", backoff.FullJitter(nil, nil), []string{"FullJitter.Strategy"}},
		{"equal jitter of a bad one", backoff.EqualJitter(backoff.Constant{Wait: -1}, nil), []string{"Constant.Wait"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var want []string
			for _, f := range tt.want {
				want = append(want, "backoff."+f)
			}
			require.Equal(t, want, fields(t, backoff.Validate(tt.s)))
		})
	}
}

func TestValidateMessageNamesFieldValueAndRemedy(t *testing.T) {
	t.Parallel()
	require.EqualError(t, backoff.Validate(backoff.Exponential{Initial: time.Second, Multiplier: 1}),
		"backoff.Exponential.Multiplier = 1: must be > 1 and finite (0 means 2)")
	require.NoError(t, errors.Join(backoff.Validate(backoff.None{})))
}

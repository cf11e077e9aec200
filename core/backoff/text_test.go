package backoff_test

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
)

func TestStrategiesSurviveTheirText(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]backoff.Strategy{
		"none":                                     backoff.None{},
		"none jitter full":                         backoff.FullJitter(backoff.None{}, nil),
		"constant 0s":                              backoff.Constant{},
		"constant 1m jitter 0.2":                   backoff.Constant{Wait: time.Minute, Jitter: 0.2},
		"linear 100ms":                             backoff.Linear{Initial: 100 * ms},
		"linear 100ms x0.1 max 10s jitter 1":       backoff.Linear{Initial: 100 * ms, Multiplier: 0.1, Max: 10 * time.Second, Jitter: 1},
		"exponential 500ms":                        backoff.Exponential{Initial: 500 * ms},
		"exponential 500ms x2 max 1m jitter 0.5":   backoff.Exponential{Initial: 500 * ms, Multiplier: 2, Max: time.Minute, Jitter: 0.5},
		"exponential 1ns x1e+300 jitter 1e-05":     backoff.Exponential{Initial: 1, Multiplier: 1e300, Jitter: 1e-5},
		"exponential 500ms x2 max 1m jitter full":  backoff.FullJitter(backoff.Exponential{Initial: 500 * ms, Multiplier: 2, Max: time.Minute}, nil),
		"exponential 1h30m jitter 0.5 jitter full": backoff.FullJitter(backoff.Exponential{Initial: 90 * time.Minute, Jitter: 0.5}, nil),
		"constant 1s jitter equal jitter full":     backoff.FullJitter(backoff.EqualJitter(backoff.Constant{Wait: time.Second}, nil), nil),
		"decorrelated 1s":                          backoff.Decorrelated{Base: time.Second},
		"decorrelated 1s max 1m jitter equal":      backoff.EqualJitter(backoff.Decorrelated{Base: time.Second, Max: time.Minute}, nil),
	} {
		require.Equal(t, want, fmt.Sprint(s))
		text, err := s.(encoding.TextMarshaler).MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		got, err := backoff.Parse(want)
		require.NoError(t, err)
		require.Equal(t, s, got, want)
		data, err := json.Marshal(struct{ Backoff backoff.Strategy }{s})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf(`{"Backoff":%q}`, want), string(data))
	}
}

func TestUnmarshalTextReadsOneType(t *testing.T) {
	t.Parallel()
	constant, linear, exponential, decorrelated := backoff.Constant{}, backoff.Linear{}, backoff.Exponential{}, backoff.Decorrelated{}
	require.NoError(t, constant.UnmarshalText([]byte("constant 1s")))
	require.Equal(t, backoff.Constant{Wait: time.Second}, constant)
	require.NoError(t, linear.UnmarshalText([]byte(" linear  1s   max 1m0s")))
	require.Equal(t, backoff.Linear{Initial: time.Second, Max: time.Minute}, linear)
	require.NoError(t, exponential.UnmarshalText([]byte("exponential 1s x3")))
	require.Equal(t, backoff.Exponential{Initial: time.Second, Multiplier: 3}, exponential)
	require.NoError(t, decorrelated.UnmarshalText([]byte("decorrelated 1s")))
	require.Equal(t, backoff.Decorrelated{Base: time.Second}, decorrelated)
	require.NoError(t, new(backoff.None).UnmarshalText([]byte("none")))
	for _, text := range []string{"constant 1s", "exponential 1s jitter full", "exponential 1s x1", "x"} {
		require.ErrorIs(t, exponential.UnmarshalText([]byte(text)), core.ErrConfig, text)
	}
	require.Equal(t, backoff.Exponential{Initial: time.Second, Multiplier: 3}, exponential, "it stays as it is")
	require.EqualError(t, constant.UnmarshalText([]byte("none")), `backoff.Constant = "none": must be a strategy of this type: Parse reads all of them`)
}

func TestStrategiesWithoutAText(t *testing.T) {
	t.Parallel()
	source := backoff.Seeded(1)
	own := backoff.Func(func(int, time.Duration) time.Duration { return 0 })
	for want, s := range map[string]backoff.Strategy{
		"backoff.Constant.Rand = set: must be nil: a function has no text":     backoff.Constant{Rand: source},
		"backoff.Linear.Rand = set: must be nil: a function has no text":       backoff.Linear{Initial: 1, Rand: source},
		"backoff.Exponential.Rand = set: must be nil: a function has no text":  backoff.FullJitter(backoff.Exponential{Initial: 1, Rand: source}, nil),
		"backoff.Decorrelated.Rand = set: must be nil: a function has no text": backoff.Decorrelated{Base: 1, Rand: source},
		"backoff.EqualJitter.Rand = set: must be nil: a function has no text":  backoff.EqualJitter(backoff.None{}, source),
		`backoff.Strategy = "backoff.Func jitter full": must be as "none"`:     backoff.FullJitter(own, nil),
		`backoff.Strategy = "<nil> jitter full": must be as "none"`:            backoff.FullJitter(nil, nil),
		`backoff.Strategy = "backoff_test.fake jitter full": must be as`:       backoff.FullJitter(fake{}, nil),
		"backoff.Constant.Wait = -1s: must be >= 0":                            backoff.Constant{Wait: -time.Second},
		"backoff.Exponential.Multiplier = NaN: must be":                        backoff.Exponential{Initial: 1, Multiplier: math.NaN()},
	} {
		_, err := s.(encoding.TextMarshaler).MarshalText()
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, core.ErrConfig)
	}
}

// fake is a strategy with the text of another.
type fake struct{ backoff.None }

func (fake) String() string { return "constant 1s" }

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "jitter full", "500ms", "none 1s", "none max 1s", "constant", "constant 1", "constant 1s max 1m", "constant 1s x2", "linear 1s max", "linear 1s x", "linear 1s x2 x3",
		"exponential 1s max 1m x2", "exponential 1s jitter", "exponential 1s jitter half", "exponential 1s jitter full jitter 0.5", "exponential 1s jitter 0.5 max 1m",
		"decorrelated 1s jitter 0.5", "Exponential 1s", "exponential 1s and constant 2s", "exponential 1s x2,max 1m",
	} {
		_, err := backoff.Parse(text)
		require.ErrorContains(t, err, fmt.Sprintf(`backoff.Strategy = %q: must be as "none", "constant 1s jitter 0.2", "linear`, text))
		require.ErrorIs(t, err, core.ErrConfig, text)
	}
	for text, want := range map[string]string{
		"constant -1s":             "backoff.Constant.Wait = -1s: must be >= 0",
		"linear 0s":                "backoff.Linear.Initial = 0s: must be > 0",
		"exponential 1s x1":        "backoff.Exponential.Multiplier = 1: must be > 1 and finite (0 means 2)",
		"exponential 1s xNaN":      "backoff.Exponential.Multiplier = NaN: must be",
		"exponential 1s max 1ms":   "backoff.Exponential.Max = 1ms: must be >= Initial",
		"constant 1s jitter 2":     "backoff.Constant.Jitter = 2: must be between 0 and 1",
		"decorrelated 0s":          "backoff.Decorrelated.Base = 0s: must be > 0",
		"linear -1s x-1 jitter 1.": "backoff.Linear.Initial = -1s: must be > 0\nbackoff.Linear.Multiplier = -1: must be > 0",
	} {
		s, err := backoff.Parse(text)
		require.ErrorContains(t, err, want)
		require.Nil(t, s)
	}
}

func TestEveryValidStrategySurvivesItsText(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		wait := time.Duration(1 + r.Int64N(1<<r.IntN(60)))
		longest := time.Duration(0)
		if r.IntN(2) == 0 {
			longest = wait + time.Duration(r.Int64N(1<<60))
		}
		multiplier := float64(r.IntN(2)) * (1 + r.ExpFloat64())
		jitter := float64(r.IntN(2)) * r.Float64()
		s := []backoff.Strategy{
			backoff.None{},
			backoff.Constant{Wait: wait, Jitter: jitter},
			backoff.Linear{Initial: wait, Multiplier: multiplier, Max: longest, Jitter: jitter},
			backoff.Exponential{Initial: wait, Multiplier: multiplier, Max: longest, Jitter: jitter},
			backoff.Decorrelated{Base: wait, Max: longest},
		}[r.IntN(5)]
		for range r.IntN(3) {
			s = []func(backoff.Strategy, func() float64) backoff.Strategy{backoff.FullJitter, backoff.EqualJitter}[r.IntN(2)](s, nil)
		}
		require.NoError(t, backoff.Validate(s))
		text, err := s.(encoding.TextMarshaler).MarshalText()
		require.NoError(t, err)
		got, err := backoff.Parse(string(text))
		require.NoError(t, err)
		require.Equal(t, s, got, "%s", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"none", "constant 1s jitter 0.2", "linear 100ms x1 max 10s", "exponential 500ms x2 max 1m jitter full", "decorrelated 1s max 1m", "linear 1s x", "exponential 1s x0x1p3", "constant 1s jitter 1e-400"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := backoff.Parse(text)
		if err != nil {
			require.ErrorIs(t, err, core.ErrConfig)
			return
		}
		require.NoError(t, backoff.Validate(s))
		short, err := s.(encoding.TextMarshaler).MarshalText()
		require.NoError(t, err)
		got, err := backoff.Parse(string(short))
		require.NoError(t, err)
		require.Equal(t, s, got, "%q, %q", text, short)
	})
}

func ExampleParse() {
	s, err := backoff.Parse("exponential 500ms x2 max 2s") // as from a file
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Delay(1, 0), s.Delay(2, 0), s.Delay(9, 0))
	fmt.Println(backoff.FullJitter(s, nil))
	_, err = backoff.Parse("exponential 500ms x1")
	fmt.Println(err)
	// Output:
	// 500ms 1s 2s
	// exponential 500ms x2 max 2s jitter full
	// backoff.Exponential.Multiplier = 1: must be > 1 and finite (0 means 2)
}

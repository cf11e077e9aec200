package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	theirs "github.com/gresil/gresil/core/testdata/retry"
	"github.com/gresil/gresil/core/timeout"
)

// traced writes down when it is entered and left, and runs what is inside n times.
type traced struct {
	name  string
	times int
	trace *[]string
}

func (m *traced) Name() string { return m.name }

func (m *traced) Run(ctx context.Context, next core.Next) (result any, err error) {
	*m.trace = append(*m.trace, "+"+m.name)
	for range m.times {
		result, err = next.Run(ctx)
	}
	*m.trace = append(*m.trace, "-"+m.name)
	return result, err
}

func TestDo(t *testing.T) {
	t.Parallel()
	var trace []string
	p, err := core.NewPipeline(&traced{"a", 1, &trace}, &traced{"b", 2, &trace}, &traced{"c", 1, &trace})
	require.NoError(t, err)
	n, err := core.Do(t.Context(), p, func(context.Context) (int, error) {
		trace = append(trace, "op")
		return 7, errors.New("e")
	})
	require.Equal(t, 7, n, "a result comes along with an error")
	require.EqualError(t, err, "e")
	require.Equal(t, []string{"+a", "+b", "+c", "op", "-c", "+c", "op", "-c", "-b", "-a"}, trace)
	require.Equal(t, "core_test(a) > core_test(b) > core_test(c)", p.String())
}

func TestDoEmptyPipeline(t *testing.T) {
	t.Parallel()
	var zero core.Pipeline
	for _, p := range []*core.Pipeline{nil, {}, &zero, core.Must(core.NewPipeline())} {
		v, err := core.Do(t.Context(), p, func(context.Context) (string, error) { return "v", nil })
		require.NoError(t, err)
		require.Equal(t, "v", v)
	}
	require.Empty(t, zero.String())
	require.Empty(t, (*core.Pipeline)(nil).String())
}

func TestNewPipelineErrors(t *testing.T) {
	t.Parallel()
	m := &traced{name: "m"}
	for want, all := range map[string][]core.Mechanism{
		"core.NewPipeline[0] = <nil>: must be a mechanism (did its constructor fail?)": {nil},
		"core.NewPipeline[1] = <nil>: must be a mechanism (did its constructor fail?)": {m, (*traced)(nil)},
		"core.NewPipeline[2] = m: must not be in the pipeline twice":                   {&traced{}, m, m},
	} {
		_, err := core.NewPipeline(all...)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, core.ErrConfig)
	}
}

// uncomparable is a value that == panics on.
type uncomparable struct{ f func() string }

func (u uncomparable) Name() string                                       { return u.f() }
func (uncomparable) Run(ctx context.Context, next core.Next) (any, error) { return next.Run(ctx) }

// stateless has no state, so that it may be in a pipeline twice.
type stateless struct{}

func (stateless) Name() string                                         { return "stateless" }
func (stateless) Run(ctx context.Context, next core.Next) (any, error) { return next.Run(ctx) }

func TestNewPipelineValues(t *testing.T) {
	t.Parallel()
	u := uncomparable{func() string { return "u" }}
	p, err := core.NewPipeline(u, u, stateless{}, stateless{}, &stateless{}, &stateless{})
	require.NoError(t, err)
	n, err := core.Do(t.Context(), p, func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, n)
}

// constant returns a result of its own.
type constant struct {
	result any
	err    error
}

func (constant) Name() string                                  { return "constant" }
func (c constant) Run(context.Context, core.Next) (any, error) { return c.result, c.err }

func TestDoResultOfAnotherType(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	n, err := core.Do(t.Context(), core.Must(core.NewPipeline(constant{"text", cause})), func(context.Context) (int, error) { return 1, nil })
	require.Zero(t, n)
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, "core: a mechanism returned a string where the operation returns a int")

	n, err = core.Do(t.Context(), core.Must(core.NewPipeline(constant{nil, cause})), func(context.Context) (int, error) { return 1, nil })
	require.Zero(t, n)
	require.Equal(t, cause, err)

	var stringer fmt.Stringer
	stringer, err = core.Do(t.Context(), core.Must(core.NewPipeline(constant{core.Success, nil})), func(context.Context) (fmt.Stringer, error) { return nil, nil })
	require.NoError(t, err, "an interface takes what implements it")
	require.Equal(t, core.Success, stringer)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	var (
		trace  []string
		r      = core.Must(retry.New(retry.Config{Name: "r"}))
		l      = core.Must(ratelimit.New(ratelimit.Config{Name: "l"}))
		b      = core.Must(breaker.New(breaker.Config{Name: "b"}))
		each   = core.Must(timeout.New(timeout.Config{Name: "each", Limit: time.Second}))
		total  = core.Must(timeout.New(timeout.Config{Name: "total"}))
		places = core.Must(bulkhead.New(bulkhead.Config{Name: "p"}))
		mine   = &traced{"mine", 1, &trace}
	)
	for _, c := range []struct {
		order []core.Mechanism
		want  string // "a in b" for each pair
	}{
		{nil, ""},
		{[]core.Mechanism{total, r, l, b, each}, ""},
		{[]core.Mechanism{b, total}, ""},
		{[]core.Mechanism{total, l, b}, ""},
		{[]core.Mechanism{r, core.Must(retry.New(retry.Config{})), mine}, ""},
		{[]core.Mechanism{b, theirs.Policy{}, each, places, &theirs.Policy{}}, "bulkhead(p) in breaker(b)"},
		{[]core.Mechanism{total, r, places, l, b, each}, ""},
		{[]core.Mechanism{r, l, places, b, each}, ""},
		{[]core.Mechanism{b, total, l}, "ratelimit(l) in breaker(b)"},
		{[]core.Mechanism{b, mine, r}, "retry(r) in breaker(b)"},
		{[]core.Mechanism{r, each, b}, "breaker(b) in timeout(each)"},
		{[]core.Mechanism{r, each, l}, "ratelimit(l) in timeout(each)"},
		{[]core.Mechanism{b, l, r}, "ratelimit(l) in breaker(b), retry(r) in breaker(b), retry(r) in ratelimit(l)"},
		{[]core.Mechanism{places, r}, "retry(r) in bulkhead(p)"},
		{[]core.Mechanism{b, places}, "bulkhead(p) in breaker(b)"},
		{[]core.Mechanism{r, each, places}, "bulkhead(p) in timeout(each)"},
	} {
		p := core.Must(core.NewPipeline(c.order...))
		found := p.Check()
		var want []string
		for pair := range strings.SplitSeq(c.want, ", ") {
			if inner, outer, ok := strings.Cut(pair, " in "); ok {
				kindOf := func(s string) string { kind, _, _ := strings.Cut(s, "("); return kind }
				want = append(want, fmt.Sprintf("core: %s is outside %s, which belongs outside of it (%s before %s)", outer, inner, kindOf(inner), kindOf(outer)))
			}
		}
		require.Equal(t, want, found, p.String())
	}
	require.Nil(t, (*core.Pipeline)(nil).Check())
	require.Nil(t, new(core.Pipeline).Check())
}

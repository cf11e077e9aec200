package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
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

func TestPipelineFirstIsOutermost(t *testing.T) {
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
	require.Equal(t, "*core_test.traced(a) > *core_test.traced(b) > *core_test.traced(c)", p.String())
}

func TestPipelineMayBeEmpty(t *testing.T) {
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

func TestPipelineRefusesNilAndTwice(t *testing.T) {
	t.Parallel()
	_, err := core.NewPipeline(nil)
	require.EqualError(t, err, "core.NewPipeline[0] = <nil>: must be a mechanism (did its constructor fail?)")
	m := &traced{name: "m"}
	_, err = core.NewPipeline(&traced{}, m, m)
	require.EqualError(t, err, "core.NewPipeline[2] = m: must not be in the pipeline twice")
	require.ErrorIs(t, err, core.ErrConfig)
}

func TestPipelineRefusesANilPointer(t *testing.T) {
	t.Parallel()
	_, err := core.NewPipeline(&traced{}, (*traced)(nil))
	require.EqualError(t, err, "core.NewPipeline[1] = <nil>: must be a mechanism (did its constructor fail?)")
}

// uncomparable is a value that == panics on.
type uncomparable struct{ f func() string }

func (u uncomparable) Name() string                                       { return u.f() }
func (uncomparable) Run(ctx context.Context, next core.Next) (any, error) { return next.Run(ctx) }

// stateless has no state, so that it may be in a pipeline twice.
type stateless struct{}

func (stateless) Name() string                                         { return "stateless" }
func (stateless) Run(ctx context.Context, next core.Next) (any, error) { return next.Run(ctx) }

func TestPipelineTakesValues(t *testing.T) {
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

func TestPipelineResultOfAnotherType(t *testing.T) {
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

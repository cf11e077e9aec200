package instance_test

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

// A made mechanism has these methods, and SetConfig.
type made interface {
	Name() string
}

// mechanisms returns a constructor for each kind of mechanism.
func mechanisms() map[string]func(name string, r *core.Registry) (made, error) {
	return map[string]func(name string, r *core.Registry) (made, error){
		"retry": func(n string, r *core.Registry) (made, error) { return retry.New(retry.Config{Name: n, Registry: r}) },
		"breaker": func(n string, r *core.Registry) (made, error) {
			return breaker.New(breaker.Config{Name: n, Registry: r})
		},
		"breaker group": func(n string, r *core.Registry) (made, error) {
			return breaker.NewGroup(breaker.Config{Name: n, Registry: r})
		},
		"ratelimit": func(n string, r *core.Registry) (made, error) {
			return ratelimit.New(ratelimit.Config{Name: n, Registry: r})
		},
		"timeout": func(n string, r *core.Registry) (made, error) {
			return timeout.New(timeout.Config{Name: n, Registry: r})
		},
		"bulkhead": func(n string, r *core.Registry) (made, error) {
			return bulkhead.New(bulkhead.Config{Name: n, Registry: r})
		},
		"gate": func(n string, r *core.Registry) (made, error) { return gate.New(gate.Config{Name: n, Registry: r}) },
		"jobs": func(n string, r *core.Registry) (made, error) { return jobs.New(jobs.Config{Name: n, Registry: r}) },
		"batch": func(n string, r *core.Registry) (made, error) {
			return batch.New(batch.Config[int, int]{Name: n, Registry: r, Send: func(context.Context, string, []int) ([]batch.Result[int], error) { return nil, nil }})
		},
	}
}

func closeIt(t *testing.T, m made) {
	t.Helper()
	switch c := m.(type) {
	case interface{ Close() error }:
		require.NoError(t, c.Close())
	case interface {
		Close(ctx context.Context) error
	}:
		require.NoError(t, c.Close(t.Context()))
	default:
		t.Fatalf("%T has no Close", m)
	}
}

func configOf(r *registry.Registry, kind string) any {
	e, _ := r.Get(kind, "x")
	return e.Source.Config()
}

func setConfig(r *registry.Registry, kind string, cfg any, dry bool) error {
	e, _ := r.Get(kind, "x")
	return e.Source.Set(cfg, dry)
}

// named returns a Config with another Name.
func named(cfg any, name string) any {
	v := reflect.New(reflect.TypeOf(cfg)).Elem()
	v.Set(reflect.ValueOf(cfg))
	v.FieldByName("Name").SetString(name)
	return v.Interface()
}

// TestMechanisms holds what all mechanisms have in common: life cycle, SetConfig, registry and reporting.
func TestMechanisms(t *testing.T) {
	t.Parallel()
	for of, create := range mechanisms() {
		kind, _, _ := strings.Cut(of, " ")
		setup := func(t *testing.T) (*registry.Registry, made) {
			t.Helper()
			t.Parallel()
			r := &registry.Registry{}
			m, err := create("x", (*core.Registry)(r))
			require.NoError(t, err)
			return r, m
		}
		t.Run(of+"/registered", func(t *testing.T) {
			r, m := setup(t)
			e, ok := r.Get(kind, "x")
			require.True(t, ok)
			require.Same(t, m, e.Instance)
			require.Equal(t, "x", m.Name())
			second, err := create("x", (*core.Registry)(r))
			require.ErrorContains(t, err, "already registered")
			require.ErrorIs(t, err, core.ErrConfig)
			require.True(t, reflect.ValueOf(second).IsNil())
			closeIt(t, m)
			require.Empty(t, r.Entries())
			successor, err := create("x", (*core.Registry)(r))
			require.NoError(t, err)
			closeIt(t, m)
			e, _ = r.Get(kind, "x")
			require.Same(t, successor, e.Instance, "it is not removed with another one")
		})
		t.Run(of+"/SetConfig", func(t *testing.T) {
			r, _ := setup(t)
			cfg := configOf(r, kind)
			require.NoError(t, setConfig(r, kind, cfg, true))
			require.Zero(t, r.Reloads(kind), "a dry run changes nothing")
			for _, dry := range []bool{true, false} {
				require.ErrorContains(t, setConfig(r, kind, named(cfg, "y"), dry), "Config.Name = y: must stay x")
				require.ErrorIs(t, setConfig(r, kind, struct{}{}, dry), core.ErrConfig, "of another type")
			}
			other := reflect.New(reflect.TypeOf(cfg)).Elem()
			other.Set(reflect.ValueOf(cfg))
			other.FieldByName("Registry").Set(reflect.ValueOf(&core.Registry{}))
			require.ErrorContains(t, setConfig(r, kind, other.Interface(), false), "Config.Registry = another one: must stay the same")
			other.FieldByName("Registry").SetZero()
			require.NoError(t, setConfig(r, kind, named(other.Interface(), ""), false), "what is not said stays")
			now := reflect.ValueOf(configOf(r, kind))
			require.Equal(t, "x", now.FieldByName("Name").String())
			require.Same(t, (*core.Registry)(r), now.FieldByName("Registry").Interface())
			n := r.Reloads(kind)
			require.Equal(t, []uint64{1, 2}, []uint64{n.Accepted, n.Refused})
		})
		t.Run(of+"/figures", func(t *testing.T) {
			r, _ := setup(t)
			e, _ := r.Get(kind, "x")
			seen := map[string]bool{}
			figures := e.Source.Figures()
			if e.Source.Keys != nil {
				figures = append(figures, e.Source.Keys("key")...)
				require.Greater(t, len(figures), len(seen))
				figures = e.Source.Figures()
			}
			for _, f := range figures {
				require.Regexp(t, regexp.MustCompile(`^[a-z_]+$`), f.Name)
				require.NotEmpty(t, f.Help, f.Name)
				require.Zero(t, len(f.Labels)%2, f.Name)
				series := f.Name + " " + strings.Join(f.Labels, " ")
				require.False(t, seen[series], series)
				seen[series] = true
			}
			require.NotEmpty(t, seen)
		})
		t.Run(of+"/events", func(t *testing.T) {
			r, _ := setup(t)
			e, _ := r.Get(kind, "x")
			var texts []string
			cancel := e.Source.Events(false, func(_ context.Context, e registry.Event) {
				if texts = append(texts, e.Text); len(texts) == 1 { // no lock is held, so it can call back
					require.NoError(t, setConfig(r, kind, configOf(r, kind), false))
				}
			})
			require.NoError(t, setConfig(r, kind, configOf(r, kind), false))
			require.Error(t, setConfig(r, kind, named(configOf(r, kind), "y"), false))
			require.Equal(t, []string{"config replaced", "config replaced", "config refused, the old one is kept"}, texts)
			cancel()
			cancel()
			require.NoError(t, setConfig(r, kind, configOf(r, kind), false))
			require.Len(t, texts, 3)
			e.Source.Events(false, func(context.Context, registry.Event) { panic("observer") })
			require.PanicsWithValue(t, "observer", func() { _ = setConfig(r, kind, configOf(r, kind), false) })
			require.EqualValues(t, 4, r.Reloads(kind).Accepted, "the state is whole")
		})
	}
}

func TestStatsInOneLine(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]fmt.Stringer{
		"in_flight=8/25 waiting=0 admitted=120 rejected=3": bulkhead.Stats{InFlight: 8, Limit: 25, Admitted: 120, Rejected: 3},
		"allowed=120 rejected=3 keys=17":                   ratelimit.Stats{Allowed: 120, Rejected: 3, Keys: 17},
	} {
		require.Equal(t, want, s.String())
	}
}

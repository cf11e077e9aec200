package instance_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/hook"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/dispatch"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/pace"
)

type hooks struct{ Happened func(context.Context, string) }

func (h hooks) Join(other hooks) hooks { return hooks{hook.Join(h.Happened, other.Happened)} }

type config struct {
	Name     string
	Registry *core.Registry
	Limit    int
	Size     int
	Hooks    hooks
}

func (c config) Validate() error {
	check := validate.Of("m.Config")
	check.That(c.Limit >= 0, "Limit", c.Limit, "must be >= 0")
	return check.Err()
}

var kind = &instance.Kind[config, int]{ //nolint:gochecknoglobals // a constant
	Kind: "m", Type: "m.Config", DefaultName: "default",
	Fields:   func(c *config) instance.Fields { return instance.Fields{Name: &c.Name, Registry: &c.Registry} },
	Settings: func(c *config) int { return 10 * c.Limit },
	Fixed: func(check *validate.Check, old, cfg *config) {
		check.That(cfg.Size == old.Size, "Size", cfg.Size, "must stay the same")
	},
}

type mechanism struct {
	instance.Hooked[config, int, hooks]
}

func newMechanism(cfg config) (*mechanism, error) {
	m := &mechanism{}
	if err := m.InitHooks(kind, func(c *config) hooks { return c.Hooks }, cfg); err != nil {
		return nil, err
	}
	return m, m.Register(m, func(cfg config) error { return m.SetConfig(cfg, nil) }, registry.Source{})
}

func (m *mechanism) happened(what string) {
	defer m.Panics.Recover()
	if f := m.Hooks().Happened; f != nil {
		f(context.Background(), what)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	m := core.Must(newMechanism(config{Limit: 2, Size: 3}))
	require.Equal(t, 20, m.Load().Settings)
	require.NoError(t, m.SetConfig(config{Limit: 5, Size: 3}, nil))
	require.Equal(t, 50, m.Load().Settings)
}

func TestSetConfigIsRefused(t *testing.T) {
	t.Parallel()
	var r core.Registry
	m := core.Must(newMechanism(config{Name: "a", Registry: &r, Limit: 5, Size: 3}))
	err := m.SetConfig(config{Name: "b", Registry: &core.Registry{}, Limit: -1, Size: 4}, nil)
	require.EqualError(t, err, "m.Config.Limit = -1: must be >= 0\n"+
		"m.Config.Name = b: must stay a\nm.Config.Registry = another one: must stay the same\nm.Config.Size = 4: must stay the same")
	refused := errors.New("refused")
	require.ErrorIs(t, m.SetConfig(config{Limit: 6, Size: 3}, func(cfg *config) error {
		require.Equal(t, "a", cfg.Name)
		return refused
	}), refused)
	require.Equal(t, 5, m.Load().Config.Limit)
}

func TestHooksAreReplacedAndObserversStay(t *testing.T) {
	t.Parallel()
	var seen []string
	to := func(name string) hooks {
		return hooks{func(_ context.Context, what string) { seen = append(seen, name+" "+what) }}
	}
	m := core.Must(newMechanism(config{Hooks: to("first")}))
	cancel := m.Observe(to("observer"))
	m.happened("a")
	require.NoError(t, m.SetConfig(config{Hooks: to("second")}, nil))
	m.happened("b")
	cancel()
	m.happened("c")
	require.Equal(t, []string{"first a", "observer a", "second b", "observer b", "second c"}, seen)
	require.NoError(t, m.SetConfig(config{Hooks: hooks{func(context.Context, string) { panic("hook") }}}, nil))
	m.happened("d")
	require.Equal(t, uint64(1), m.Panics.Count())
}

func TestEventsOfItsOwn(t *testing.T) {
	t.Parallel()
	r, heard, canceled := &registry.Registry{}, 0, 0
	var i instance.Instance[config, int]
	require.NoError(t, i.Init(kind, config{Registry: (*core.Registry)(r)}))
	set := func(c config) error { return i.SetConfig(c, nil) }
	require.NoError(t, i.Register(&i, set, registry.Source{Events: func(calls bool, f func(context.Context, registry.Event)) func() {
		f(t.Context(), registry.Event{Text: "own", Call: calls})
		return func() { canceled++ }
	}}))
	e, _ := r.Get("m", "default")
	cancel := e.Source.Events(true, func(context.Context, registry.Event) { heard++ })
	require.NoError(t, set(config{}))
	require.Equal(t, []int{2, 0}, []int{heard, canceled})
	cancel()
	require.NoError(t, set(config{}))
	require.Equal(t, []int{2, 1}, []int{heard, canceled})
}

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
		"cooldown": func(n string, r *core.Registry) (made, error) {
			return cooldown.New(cooldown.Config{Name: n, Registry: r})
		},
		"dispatch": func(n string, r *core.Registry) (made, error) {
			return dispatch.New(dispatch.Config[string, int]{Name: n, Registry: r})
		},
		"pace": func(n string, r *core.Registry) (made, error) {
			return pace.New(pace.Config{Name: n, Registry: r, Rates: []pace.Rate{{Calls: 1, Per: time.Second}}})
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
			cfg := r.Config(kind, "x")
			require.NoError(t, r.Set(kind, "x", cfg, true))
			require.Zero(t, r.Reloads(kind), "a dry run changes nothing")
			for _, dry := range []bool{true, false} {
				require.ErrorContains(t, r.Set(kind, "x", named(cfg, "y"), dry), "Config.Name = y: must stay x")
				require.ErrorIs(t, r.Set(kind, "x", struct{}{}, dry), core.ErrConfig, "of another type")
			}
			other := reflect.New(reflect.TypeOf(cfg)).Elem()
			other.Set(reflect.ValueOf(cfg))
			other.FieldByName("Registry").Set(reflect.ValueOf(&core.Registry{}))
			require.ErrorContains(t, r.Set(kind, "x", other.Interface(), false), "Config.Registry = another one: must stay the same")
			other.FieldByName("Registry").SetZero()
			require.NoError(t, r.Set(kind, "x", named(other.Interface(), ""), false), "what is not said stays")
			now := reflect.ValueOf(r.Config(kind, "x"))
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
					require.NoError(t, r.Set(kind, "x", r.Config(kind, "x"), false))
				}
			})
			require.NoError(t, r.Set(kind, "x", r.Config(kind, "x"), false))
			require.Error(t, r.Set(kind, "x", named(r.Config(kind, "x"), "y"), false))
			require.Equal(t, []string{"config replaced", "config replaced", "config refused, the old one is kept"}, texts)
			cancel()
			cancel()
			require.NoError(t, r.Set(kind, "x", r.Config(kind, "x"), false))
			require.Len(t, texts, 3)
			e.Source.Events(false, func(context.Context, registry.Event) { panic("observer") })
			require.PanicsWithValue(t, "observer", func() { _ = r.Set(kind, "x", r.Config(kind, "x"), false) })
			require.EqualValues(t, 4, r.Reloads(kind).Accepted, "the state is whole")
		})
	}
}

func TestStatsInOneLine(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]fmt.Stringer{
		"in_flight=8/25 waiting=0 admitted=120 rejected=3": bulkhead.Stats{InFlight: 8, Limit: 25, Admitted: 120, Rejected: 3},
		"allowed=120 rejected=3 keys=17":                   ratelimit.Stats{Allowed: 120, Rejected: 3, Keys: 17},
		"holds=2 resumed=1 waiting=0 waited=5 rejected=3":  cooldown.Stats{Holds: 2, Resumed: 1, Waited: 5, Rejected: 3},
	} {
		require.Equal(t, want, s.String())
	}
}

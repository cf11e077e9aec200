package instance_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/hook"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/validate"
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

var kind = &instance.Kind[config, int, hooks]{ //nolint:gochecknoglobals // a constant
	Kind: "m", Type: "m.Config", DefaultName: "default",
	Fields:   func(c *config) instance.Fields[hooks] { return instance.Fields[hooks]{&c.Name, &c.Registry, &c.Hooks} },
	Settings: func(c *config) int { return 10 * c.Limit },
	Fixed: func(check *validate.Check, old, cfg *config) {
		check.That(cfg.Size == old.Size, "Size", cfg.Size, "must stay the same")
	},
}

type mechanism struct {
	instance.Instance[config, int, hooks]
}

func newMechanism(cfg config) (*mechanism, error) {
	m := &mechanism{}
	if err := m.Init(kind, cfg); err != nil {
		return nil, err
	}
	return m, m.Register(m)
}

func (m *mechanism) happened(what string) {
	defer m.Panics.Recover()
	if f := m.Hooks().Happened; f != nil {
		f(context.Background(), what)
	}
}

func TestAnInstanceIsRegisteredUntilItIsClosed(t *testing.T) {
	t.Parallel()
	var registry core.Registry
	m, err := newMechanism(config{Registry: &registry, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, "default", m.Name())
	require.Equal(t, 20, m.Load().Settings)
	has, _ := registry.Get("m", "default")
	require.Same(t, m, has)
	_, err = newMechanism(config{Registry: &registry})
	require.ErrorContains(t, err, "already registered")
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	_, ok := registry.Get("m", "default")
	require.False(t, ok)
	_, err = newMechanism(config{Registry: &registry, Limit: -1})
	require.EqualError(t, err, "m.Config.Limit = -1: must be >= 0")
	_, ok = registry.Get("m", "default")
	require.False(t, ok, "an invalid config is not registered")
}

func TestSetConfigReplacesWhatMayChange(t *testing.T) {
	t.Parallel()
	var registry core.Registry
	m, err := newMechanism(config{Name: "a", Registry: &registry, Limit: 1, Size: 3})
	require.NoError(t, err)
	require.NoError(t, m.SetConfig(config{Limit: 5, Size: 3}, nil))
	require.Equal(t, config{Name: "a", Registry: &registry, Limit: 5, Size: 3}, m.Load().Config)
	require.Equal(t, 50, m.Load().Settings)

	err = m.SetConfig(config{Name: "b", Registry: &core.Registry{}, Limit: -1, Size: 4}, nil)
	require.EqualError(t, err, "m.Config.Limit = -1: must be >= 0\n"+
		"m.Config.Name = b: must stay a\nm.Config.Registry = another one: must stay the same\nm.Config.Size = 4: must stay the same")

	refused := errors.New("refused")
	require.ErrorIs(t, m.SetConfig(config{Limit: 6, Size: 3}, func(cfg *config) error {
		require.Equal(t, "a", cfg.Name)
		return refused
	}), refused)
	require.Equal(t, 5, m.Load().Config.Limit)
}

func TestADefaultNameStaysEmptyInTheConfig(t *testing.T) {
	t.Parallel()
	m, err := newMechanism(config{})
	require.NoError(t, err)
	require.NoError(t, m.SetConfig(config{Name: "default", Limit: 1}, nil))
	require.NoError(t, m.SetConfig(config{Limit: 2}, nil))
	require.Error(t, m.SetConfig(config{Name: "other"}, nil))
	require.Equal(t, "default", m.Name())
}

func TestSetConfigReplacesItsHooksAndKeepsObservers(t *testing.T) {
	t.Parallel()
	var seen []string
	to := func(name string) hooks {
		return hooks{func(_ context.Context, what string) { seen = append(seen, name+" "+what) }}
	}
	m, err := newMechanism(config{Hooks: to("first")})
	require.NoError(t, err)
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

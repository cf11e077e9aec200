package instance_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
)

type config struct {
	Name     string
	Registry *core.Registry
	Limit    int
	Size     int
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
	instance.Instance[config, int]
}

func newMechanism(cfg config) (*mechanism, error) {
	m := &mechanism{}
	if err := m.Init(kind, cfg); err != nil {
		return nil, err
	}
	return m, m.Register(m, func(cfg config) error { return m.SetConfig(cfg, nil) }, registry.Source{})
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

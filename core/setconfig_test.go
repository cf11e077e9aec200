package core_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

// limits is the Config of a fake mechanism.
type limits struct{ max, min int }

func (l limits) Validate() error {
	if l.min > l.max {
		return &core.ConfigError{Field: "limits.min", Value: l.min, Reason: "must be <= max"}
	}
	return nil
}

// holder is the fake mechanism. It counts, which is its state.
type holder struct {
	cfg   limits
	count int
}

func (h *holder) SetConfig(cfg limits) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	h.cfg = cfg
	return nil
}

func TestLookup(t *testing.T) {
	t.Parallel()
	var r core.Registry
	h := &holder{}
	require.NoError(t, r.Add("holder", "a", h))
	got, ok := core.Lookup[*holder](&r, "holder", "a")
	require.True(t, ok)
	require.Same(t, h, got)
	_, ok = core.Lookup[*holder](&r, "holder", "b")
	require.False(t, ok)
	n, ok := core.Lookup[*int](&r, "holder", "a")
	require.False(t, ok, "it is no *int")
	require.Nil(t, n)
}

// A plugin is the fake of one that is built on mechanisms.
type plugin struct{ parts []any }

func (p *plugin) Mechanisms() []any { return p.parts }

func TestLookupFindsTheMechanismsOfAPlugin(t *testing.T) {
	t.Parallel()
	var r core.Registry
	h, n := &holder{}, new(int)
	p := &plugin{[]any{h, n, new(int)}}
	require.NoError(t, r.Add("holder", "a", p))
	got, ok := core.Lookup[*plugin](&r, "holder", "a")
	require.True(t, ok)
	require.Same(t, p, got)
	mechanism, ok := core.Lookup[*holder](&r, "holder", "a")
	require.True(t, ok)
	require.Same(t, h, mechanism)
	first, ok := core.Lookup[*int](&r, "holder", "a")
	require.True(t, ok)
	require.Same(t, n, first)
	_, ok = core.Lookup[*string](&r, "holder", "a")
	require.False(t, ok)
	require.EqualError(t, core.SetConfig(&r, "holder", "a", limits{}), `core.SetConfig = ("holder", "a"): takes no config, being a *core_test.plugin, not a core_test.limits`)
}

func TestSetConfigKeepsTheStateAndTheOldConfigOnError(t *testing.T) {
	t.Parallel()
	var r core.Registry
	h := &holder{count: 7, cfg: limits{max: 1}}
	require.NoError(t, r.Add("holder", "a", h))
	var told []core.RegistryEvent
	_, cancel := r.Subscribe(func(e core.RegistryEvent) { told = append(told, e) })
	defer cancel()
	require.NoError(t, core.SetConfig(&r, "holder", "a", limits{max: 5}))
	require.Equal(t, 5, h.cfg.max)
	require.Equal(t, 7, h.count)
	err := core.SetConfig(&r, "holder", "a", limits{max: 5, min: 6})
	require.EqualError(t, err, "limits.min = 6: must be <= max")
	require.Equal(t, limits{max: 5}, h.cfg)
	entry := core.Entry{Kind: "holder", Name: "a", Instance: h}
	require.Equal(t, []core.RegistryEvent{{Kind: core.Reconfigured, Entry: entry}, {Kind: core.Reconfigured, Entry: entry, Err: err}}, told)

	require.EqualError(t, core.SetConfig(&r, "holder", "b", limits{}), `core.SetConfig = ("holder", "b"): is not registered`)
	require.EqualError(t, core.SetConfig(&r, "holder", "a", 7), `core.SetConfig = ("holder", "a"): takes a core_test.limits, not a int`)
	require.Len(t, told, 2)
}

// removes is a mechanism that is taken out while it is given a config.
type removes struct {
	r    *core.Registry
	used int
}

func (x *removes) SetConfig(limits) error { x.used++; x.r.Remove("removes", "a", x); return nil }

func TestASubscriberMaySetAConfig(t *testing.T) {
	t.Parallel()
	var r core.Registry
	h := &holder{}
	require.NoError(t, r.Add("holder", "a", h))
	_, cancel := r.Subscribe(func(e core.RegistryEvent) {
		if h.cfg.max == 1 {
			require.NoError(t, core.SetConfig(&r, "holder", "a", limits{max: 2}))
		}
	})
	defer cancel()
	require.NoError(t, core.SetConfig(&r, "holder", "a", limits{max: 1}))
	require.Equal(t, 2, h.cfg.max)
	require.Zero(t, r.HookPanics())
}

func TestSetConfigTellsNothingOfWhatIsGone(t *testing.T) {
	t.Parallel()
	var r core.Registry
	x := &removes{r: &r}
	require.NoError(t, r.Add("removes", "a", x))
	var told []core.RegistryEventKind
	r.Subscribe(func(e core.RegistryEvent) { told = append(told, e.Kind) })
	require.EqualError(t, core.SetConfig(&r, "removes", "a", limits{}), `core.SetConfig = ("removes", "a"): was removed or replaced meanwhile`)
	require.Equal(t, []core.RegistryEventKind{core.Removed}, told)
	require.Equal(t, 1, x.used)
}

package core_test

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

// registered are holders in a registry that follow a config.
func registered(t *testing.T, r *core.Registry, c *core.Configs[limits], names ...string) []*holder {
	t.Helper()
	all := make([]*holder, len(names))
	for i, name := range names {
		all[i] = &holder{}
		require.NoError(t, r.Add("holder", name, all[i]))
		_, err := core.FollowConfig(c, "", r, "holder", name)
		require.NoError(t, err)
	}
	return all
}

func TestASubscriberMaySetAConfig(t *testing.T) {
	t.Parallel()
	var r core.Registry
	var c core.Configs[limits]
	h := registered(t, &r, &c, "a")[0]
	_, cancel := r.Subscribe(func(e core.RegistryEvent) {
		if h.cfg.max == 1 {
			require.NoError(t, c.Set("", limits{max: 2}))
			require.NoError(t, c.Derive("other", "", nil))
		}
	})
	defer cancel()
	require.NoError(t, c.Set("", limits{max: 1}))
	require.Equal(t, []int{0, 1, 2}, h.given)
	require.Zero(t, r.HookPanics())
}

// Whoever tells, whoever changes: nobody waits for himself.
func TestSubscribersThatSetConfigsConcurrently(t *testing.T) {
	t.Parallel()
	var r core.Registry
	var c core.Configs[limits]
	all := registered(t, &r, &c, "a", "b")
	_, cancel := r.Subscribe(func(e core.RegistryEvent) {
		if err := c.Set("other", limits{name: e.Entry.Name}); err != nil {
			t.Error(err)
		}
	})
	defer cancel()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := range 100 {
				if i < 3 {
					_, _ = r.Replace("other", "x", new(int))
				} else if err := c.Set("", limits{max: n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, _ := c.Get("")
	require.Equal(t, []int{got.max, got.max}, []int{all[0].cfg.max, all[1].cfg.max})
	require.Zero(t, r.HookPanics())
}

func TestASubscriberMayFollow(t *testing.T) {
	t.Parallel()
	var r core.Registry
	var c core.Configs[limits]
	registered(t, &r, &c, "a")
	other := &holder{}
	_, cancel := r.Subscribe(func(core.RegistryEvent) {
		if other.given == nil {
			_, err := c.Follow("", other.SetConfig)
			require.NoError(t, err)
		}
	})
	defer cancel()
	require.NoError(t, c.Set("", limits{max: 1}))
	require.NoError(t, c.Set("", limits{max: 2}))
	require.Equal(t, []int{1, 2}, other.given)
	require.Zero(t, r.HookPanics())
}

// A change that makes another one would wait for itself.
func TestSubscribersAreToldOfWhatHeld(t *testing.T) {
	t.Parallel()
	var r core.Registry
	var c core.Configs[limits]
	all := registered(t, &r, &c, "a", "b", "c")
	var told []core.RegistryEvent
	_, cancel := r.Subscribe(func(e core.RegistryEvent) { told = append(told, e) })
	defer cancel()
	event := func(name string, h *holder, err error) core.RegistryEvent {
		return core.RegistryEvent{Kind: core.Reconfigured, Entry: core.Entry{Kind: "holder", Name: name, Instance: h}, Err: err}
	}
	all[1].refuse = true
	require.ErrorIs(t, c.Set("", limits{max: 1}), errRefused)
	require.Equal(t, []core.RegistryEvent{event("b", all[1], errRefused)}, told)
	require.Equal(t, []int{0, 1, 0}, all[0].given)
	all[1].refuse = false
	require.NoError(t, c.Set("", limits{max: 2}))
	require.Equal(t, []core.RegistryEvent{event("a", all[0], nil), event("b", all[1], nil), event("c", all[2], nil)}, told[1:])
}

func TestFollowConfigFollowsTheName(t *testing.T) {
	t.Parallel()
	var r core.Registry
	var c core.Configs[limits]
	_, err := core.FollowConfig(&c, "", &r, "holder", "a")
	require.EqualError(t, err, `core.SetConfig = ("holder", "a"): is not registered`)
	first, second := &holder{}, &holder{}
	require.NoError(t, r.Add("holder", "a", first))
	_, err = core.FollowConfig(&c, "nowhere", &r, "holder", "a")
	require.EqualError(t, err, `core.Configs.Follow = "nowhere": must be the name of a config`)
	cancel, err := core.FollowConfig(&c, "", &r, "holder", "a")
	require.NoError(t, err)
	_, err = r.Replace("holder", "a", second)
	require.NoError(t, err)
	require.NoError(t, c.Set("", limits{max: 1}))
	require.Equal(t, []int{0}, first.given)
	require.Equal(t, []int{1}, second.given)
	r.Remove("holder", "a", second)
	require.NoError(t, c.Set("", limits{max: 2}), "what is gone is in nobody's way")
	n := new(int)
	require.NoError(t, r.Add("holder", "a", n))
	require.EqualError(t, c.Set("", limits{max: 3}), `core.SetConfig = ("holder", "a"): is a *int, which has no method SetConfig(core_test.limits) error`)
	cancel()
	require.NoError(t, c.Set("", limits{max: 4}))
	require.Equal(t, []int{1}, second.given)
}

func TestAFollowerIsNotCalledAfterItsCancel(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	h, cancel := &holder{}, func() {}
	_, err := c.Follow("", func(limits) error { cancel(); return nil })
	require.NoError(t, err)
	cancel, err = c.Follow("", h.SetConfig)
	require.NoError(t, err)
	require.NoError(t, c.Set("", limits{max: 1}))
	require.Equal(t, []int{0}, h.given, "not in the round of its cancel either")
}

func TestAllAreGivenTheOldConfigWhateverOneDoes(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	h, gone := &holder{}, &holder{}
	refuse := false
	_, err := c.Follow("", h.SetConfig)
	require.NoError(t, err)
	cancel, err := c.Follow("", gone.SetConfig)
	require.NoError(t, err)
	given := 0
	_, err = c.Follow("", func(l limits) error {
		if given = l.max; l.max == 0 && refuse {
			panic("again")
		}
		return nil
	})
	require.NoError(t, err)
	_, err = c.Follow("", func(l limits) error {
		if l.max == 0 && refuse {
			return errors.New("not that one")
		}
		return nil
	})
	require.NoError(t, err)
	_, err = c.Follow("", func(l limits) error {
		if refuse = l.max == 1; refuse {
			cancel()
			return errRefused
		}
		return nil
	})
	require.NoError(t, err)
	err = c.Set("", limits{max: 1})
	require.ErrorIs(t, err, errRefused)
	require.EqualError(t, err, "refused\ncore: a follower of \"\" refused the old config: not that one\n"+
		"core: a follower of \"\" panicked when it was given the old config again: again")
	require.Equal(t, []int{0, 1, 0}, h.given)
	require.Equal(t, []int{0, 1}, gone.given)
	require.Zero(t, given)
}

func TestAFollowerThatTakesAConfigAndPanicsIsGivenTheOldOne(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	h := &holder{}
	_, err := c.Follow("", func(l limits) error {
		_ = h.SetConfig(l)
		if l.max == 1 {
			panic("taken")
		}
		return nil
	})
	require.NoError(t, err)
	require.PanicsWithValue(t, "taken", func() { _ = c.Set("", limits{max: 1}) })
	require.Zero(t, h.cfg.max)
}

func TestARefusedChangeGivesBackWhatTheInstanceHad(t *testing.T) {
	t.Parallel()
	var r core.Registry
	var c core.Configs[timeout.Config]
	require.NoError(t, c.Set("a", timeout.Config{Limit: 2}))
	one := core.Must(timeout.New(timeout.Config{Name: "one", Registry: &r}))
	other := core.Must(timeout.New(timeout.Config{Name: "other", Registry: &r}))
	for _, name := range []string{"one", "other"} {
		_, err := core.FollowConfig(&c, "a", &r, "timeout", name)
		require.NoError(t, err)
	}
	refuse := false
	_, err := c.Follow("a", func(timeout.Config) error {
		if refuse {
			return io.EOF
		}
		return nil
	})
	require.NoError(t, err)
	refuse = true
	require.NoError(t, other.Close())
	other = core.Must(timeout.New(timeout.Config{Name: "other", Registry: &r, Limit: 9}))
	require.NoError(t, core.SetConfig(&r, "timeout", "one", timeout.Config{Limit: 7}))
	require.ErrorIs(t, c.Set("a", timeout.Config{Limit: 5}), io.EOF)
	require.EqualValues(t, []time.Duration{7, 9}, []time.Duration{one.Config().Limit, other.Config().Limit})
}

package core_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

// limits is the Config of a fake mechanism.
type limits struct {
	name     string
	max, min int
}

func (l limits) Validate() error {
	if l.min > l.max {
		return &core.ConfigError{Field: "limits.min", Value: l.min, Reason: "must be <= max"}
	}
	return nil
}

var errRefused = errors.New("refused")

// holder is the fake mechanism. It counts, which is its state.
type holder struct {
	mu     sync.Mutex
	cfg    limits
	count  int
	given  []int // max of every config that was given
	refuse bool
}

func (h *holder) SetConfig(cfg limits) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := cfg.Validate(); err != nil {
		return err
	}
	if h.refuse {
		return errRefused
	}
	h.cfg = cfg
	h.given = append(h.given, cfg.max)
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
	require.EqualError(t, core.SetConfig(&r, "holder", "a", 7), `core.SetConfig = ("holder", "a"): is a *core_test.holder, which has no method SetConfig(int) error`)
	require.Len(t, told, 2)
}

// removes is a mechanism that is taken out while it is given a config.
type removes struct {
	r    *core.Registry
	used int
}

func (x *removes) SetConfig(limits) error { x.used++; x.r.Remove("removes", "a", x); return nil }

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

func TestKresilRow2_ConfigsAreDerivedStepByStep(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	cfg, ok := c.Get("")
	require.True(t, ok)
	require.Zero(t, cfg)
	_, ok = c.Get("fast")
	require.False(t, ok)
	calls := 0
	require.NoError(t, c.Derive("fast", "", func(l *limits) { calls++; l.max *= 2 }))
	require.NoError(t, c.Derive("faster", "fast", func(l *limits) { l.max++; l.name = "faster" }))
	require.NoError(t, c.Derive("same", "faster", nil))
	require.NoError(t, c.Set("other", limits{max: 3}))
	require.Equal(t, 3, calls, "it is asked for itself and for those that stand on it")
	require.NoError(t, c.Set("", limits{max: 10, min: 1}), "all follow")
	for name, want := range map[string]limits{"": {"", 10, 1}, "fast": {"", 20, 1}, "faster": {"faster", 21, 1}, "same": {"faster", 21, 1}, "other": {"", 3, 0}} {
		got, ok := c.Get(name)
		require.True(t, ok)
		require.Equal(t, want, got, name)
	}
	before := calls
	require.NoError(t, c.Set("other", limits{max: 4}))
	require.Equal(t, before, calls, "nothing that stands on another is asked for")
	require.NoError(t, c.Set("fast", limits{max: 100}), "a config takes the place of a derived one")
	got, _ := c.Get("same")
	require.Equal(t, 101, got.max)
}

func TestKresilRow4_AllThatAChangeConcernsIsValidated(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	require.NoError(t, c.Set("", limits{max: 10}))
	require.NoError(t, c.Derive("a", "", func(l *limits) { l.min = 5 }))
	require.NoError(t, c.Derive("b", "a", func(l *limits) { l.min++ }))
	require.EqualError(t, c.Set("", limits{max: 4}), "config \"a\": limits.min = 5: must be <= max\nconfig \"b\": limits.min = 6: must be <= max")
	for name, want := range map[string]int{"": 10, "a": 10, "b": 10} {
		got, _ := c.Get(name)
		require.Equal(t, want, got.max, "%q is as it was", name)
	}
	require.EqualError(t, c.Derive("c", "nowhere", nil), `core.Configs.Derive base = "nowhere": must be the name of a config`)
	_, ok := c.Get("c")
	require.False(t, ok)
	require.ErrorContains(t, c.Derive("a", "b", nil), "must not be derived from itself")
	require.ErrorContains(t, c.Derive("", "", nil), "must not be derived from itself")
	require.ErrorIs(t, c.Derive("", "b", nil), core.ErrConfig)
	got, _ := c.Get("b")
	require.Equal(t, limits{max: 10, min: 6}, got)
}

func TestFollowersHaveTheNewConfigOrAllKeepTheOld(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	require.NoError(t, c.Set("", limits{max: 1}))
	require.NoError(t, c.Derive("a", "", func(l *limits) { l.max += 100 }))
	require.NoError(t, c.Set("other", limits{max: 50}))
	base, derived, picky, other := &holder{count: 3}, &holder{}, &holder{}, &holder{}
	cancels := map[*holder]func(){}
	for h, name := range map[*holder]string{base: "", derived: "a", other: "other"} {
		cancel, err := c.Follow(name, h.SetConfig)
		require.NoError(t, err)
		cancels[h] = cancel
	}
	_, err := c.Follow("a", picky.SetConfig) // told last
	require.NoError(t, err)
	require.Equal(t, 101, derived.cfg.max, "at once")
	require.NoError(t, c.Set("", limits{max: 2}))
	require.Equal(t, []int{2, 102, 102, 50}, []int{base.cfg.max, derived.cfg.max, picky.cfg.max, other.cfg.max})
	require.Equal(t, 3, base.count)

	picky.refuse = true
	require.ErrorIs(t, c.Set("", limits{max: 3}), errRefused)
	require.Equal(t, []int{2, 102, 102, 50}, []int{base.cfg.max, derived.cfg.max, picky.cfg.max, other.cfg.max})
	require.Equal(t, []int{1, 2, 3, 2}, base.given, "it had the new one, and has the old one again")
	require.Equal(t, []int{50}, other.given)
	got, _ := c.Get("a")
	require.Equal(t, 102, got.max)

	cancels[derived]()
	cancels[derived]()
	picky.refuse = false
	require.NoError(t, c.Set("", limits{max: 4}))
	require.Equal(t, 102, derived.cfg.max)
	require.Equal(t, 104, picky.cfg.max)
	require.Equal(t, 4, base.cfg.max, "canceled for one only")
}

func TestFollowThatFails(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	h := &holder{refuse: true}
	cancel, err := c.Follow("", h.SetConfig)
	require.ErrorIs(t, err, errRefused)
	require.Nil(t, cancel)
	cancel, err = c.Follow("nowhere", h.SetConfig)
	require.EqualError(t, err, `core.Configs.Follow = "nowhere": must be the name of a config`)
	require.Nil(t, cancel)
	h.refuse = false
	require.NoError(t, c.Set("", limits{max: 1}))
	require.Empty(t, h.given)
}

func TestAFollowerThatPanicsLeavesAllAsItWas(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	h, armed := &holder{}, false
	_, err := c.Follow("", h.SetConfig)
	require.NoError(t, err)
	_, err = c.Follow("", func(limits) error {
		if armed {
			panic("follower")
		}
		return nil
	})
	require.NoError(t, err)
	armed = true
	require.PanicsWithValue(t, "follower", func() { _ = c.Set("", limits{max: 1}) })
	require.Equal(t, []int{0, 1, 0}, h.given)
	got, _ := c.Get("")
	require.Zero(t, got)
	armed = false
	require.NoError(t, c.Set("", limits{max: 2}), "and it goes on")
	require.Equal(t, 2, h.cfg.max)
}

// A follower may look, and end to follow, while it is called.
func TestAFollowerMayUseTheConfigs(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	var cancel func()
	var seen []int
	cancel, err := c.Follow("", func(l limits) error {
		old, _ := c.Get("")
		seen = append(seen, old.max, l.max)
		if cancel != nil {
			cancel()
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, c.Set("", limits{max: 1}))
	require.NoError(t, c.Set("", limits{max: 2}))
	require.Equal(t, []int{0, 0, 0, 1}, seen)
}

func TestConfigsConcurrently(t *testing.T) {
	t.Parallel()
	var c core.Configs[limits]
	require.NoError(t, c.Derive("a", "", func(l *limits) { l.min = l.max }))
	h := &holder{}
	_, err := c.Follow("a", h.SetConfig)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 100 {
				switch i % 3 {
				case 0:
					if err := c.Set("", limits{max: n}); err != nil {
						t.Error(err)
					}
				case 1:
					if got, ok := c.Get("a"); !ok || got.min != got.max {
						t.Error(got, ok)
					}
				default:
					cancel, err := c.Follow("a", func(limits) error { return nil })
					if err != nil {
						t.Error(err)
						continue
					}
					cancel()
				}
			}
		})
	}
	wg.Wait()
	got, _ := c.Get("a")
	require.Equal(t, got, h.cfg, fmt.Sprint("the follower has the last one of ", len(h.given)))
}

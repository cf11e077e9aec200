package core_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

func TestTagsOfAnInstanceOverrideThoseOfTheRegistry(t *testing.T) {
	t.Parallel()
	var r core.Registry
	require.NoError(t, r.Tag("", "", map[string]string{"zone": "all", "team": "all", "app": "shop"}))
	require.NoError(t, r.Tag("retry", "", map[string]string{"zone": "kind", "team": "kind"}))
	require.NoError(t, r.Tag("", "api", map[string]string{"zone": "name"}))
	require.NoError(t, r.Add("retry", "api", new(int)))
	require.NoError(t, r.Tag("breaker", "api", map[string]string{"zone": "both"}))
	var told []core.Entry
	now, cancel := r.Subscribe(func(e core.RegistryEvent) {
		if e.Kind == core.Added {
			told = append(told, e.Entry)
		}
	})
	defer cancel()
	want := map[string]string{"zone": "name", "team": "kind", "app": "shop"}
	require.Equal(t, want, now[0].Tags)
	require.NoError(t, r.Add("breaker", "api", new(int)))
	require.NoError(t, r.Add("timeout", "other", new(int)))
	require.Equal(t, map[string]string{"zone": "both", "team": "all", "app": "shop"}, told[0].Tags)
	require.Equal(t, map[string]string{"zone": "all", "team": "all", "app": "shop"}, told[1].Tags)

	given := map[string]string{"zone": "given"}
	require.NoError(t, r.Tag("retry", "api", given))
	given["zone"] = "changed"
	tags := func() map[string]string { return slices.Collect(r.All())[1].Tags }
	require.Equal(t, "given", tags()["zone"])
	tags()["zone"] = "mine"
	require.Equal(t, "given", tags()["zone"], "a reader has a map of his own")
	require.NoError(t, r.Tag("retry", "api", nil))
	require.Equal(t, want, tags())
	for _, k := range [][2]string{{"", ""}, {"retry", ""}, {"", "api"}} {
		require.NoError(t, r.Tag(k[0], k[1], map[string]string{}))
	}
	require.Nil(t, tags())
}

func TestSubscribersAreToldOfOtherTags(t *testing.T) {
	t.Parallel()
	var r core.Registry
	a, b := new(int), new(int)
	require.NoError(t, r.Add("retry", "a", a))
	require.NoError(t, r.Add("retry", "b", b))
	require.NoError(t, r.Tag("retry", "b", map[string]string{"zone": "eu"}))
	var told []core.RegistryEvent
	_, cancel := r.Subscribe(func(e core.RegistryEvent) { told = append(told, e) })
	defer cancel()
	eu := map[string]string{"zone": "eu"}
	require.NoError(t, r.Tag("", "", eu))
	require.Equal(t, []core.RegistryEvent{{Kind: core.Tagged, Entry: core.Entry{Kind: "retry", Name: "a", Instance: a, Tags: eu}}}, told, "b has it already")
	require.NoError(t, r.Tag("", "", eu))
	require.NoError(t, r.Tag("breaker", "a", map[string]string{"zone": "us"}))
	require.NoError(t, r.Tag("retry", "b", nil))
	require.Len(t, told, 1, "nothing is different")
	require.NoError(t, r.Tag("", "", nil))
	require.Equal(t, []core.RegistryEvent{
		{Kind: core.Tagged, Entry: core.Entry{Kind: "retry", Name: "a", Instance: a}},
		{Kind: core.Tagged, Entry: core.Entry{Kind: "retry", Name: "b", Instance: b}},
	}, told[1:])
}

func TestTagsThatCannotBeLabels(t *testing.T) {
	t.Parallel()
	var r core.Registry
	require.NoError(t, r.Add("retry", "api", new(int)))
	for _, tag := range []string{"", "kind", "name", "1st", "a-b", "a b", "é", "__name__", "a\x00"} {
		require.ErrorIs(t, r.Tag("", "", map[string]string{"good": "x", tag: "x"}), core.ErrConfig, "%q", tag)
	}
	for _, tag := range []string{"a", "Z", "_a", "a1", "az_AZ_09"} {
		require.NoError(t, r.Tag("x", "", map[string]string{tag: ""}), tag)
	}
	require.EqualError(t, r.Tag("", "", map[string]string{"a": "\xff"}), `core.Registry.Tag = a = "\xff": must be UTF-8`)
	require.EqualError(t, r.Tag("", "\xff", nil), `core.Registry.Tag = ("", "\xff"): kind and name must be UTF-8`)
	for e := range r.All() {
		require.Nil(t, e.Tags)
	}
}

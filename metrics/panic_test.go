package metrics_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

// reporter is a service of a user.
type reporter func() ([]core.Figure, uint64)

func (r *reporter) Figures() ([]core.Figure, uint64) { return (*r)() }

func (*reporter) ObserveSteps(bool, func(context.Context, core.Step)) func() { return func() {} }

// A panic of a collector would end the whole scrape.
func TestAnInstanceThatPanicsLosesOnlyItsOwnSeries(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	g := newGatherer(t, registry)
	for name, r := range map[string]reporter{
		"panics":   func() ([]core.Figure, uint64) { panic("reporter") },
		"no UTF-8": func() ([]core.Figure, uint64) { return []core.Figure{{Name: "x", Label: "of", Value: "\xff"}}, 0 },
		"works":    func() ([]core.Figure, uint64) { return []core.Figure{{Name: "x", N: 7}}, 0 },
	} {
		require.NoError(t, registry.Add("mail", name, &r))
	}
	got := samples(t, g, "")
	requireSample(t, 7, got, "mail_x works")
	requireSample(t, 3, got, "registry_entries mail")
	requireSample(t, 2, got, "hook_panics_total registry ")
}

package limits

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A key with as many counts as it keeps is looked at under one limit more.
func TestALookChangesNoCount(t *testing.T) {
	t.Parallel()
	plans := NewPlans(Clock{})
	k := &Key{Now: 1e18}
	plan := func(i int) *Plan {
		permits := int64(100)
		if i == 3 {
			permits = 2 // the count with the least use, which is charged to another
		}
		id, err := plans.Plan([]Spec{{Algorithm: SlidingLog, Permits: permits, Period: time.Duration(i+1) * time.Hour}})
		require.NoError(t, err)
		return plans.All()[id]
	}
	for i := range maxCounts {
		_, changed := k.Apply(plan(i), &Op{Cost: 1})
		require.True(t, changed)
		k.Now += int64(time.Second)
	}
	require.Len(t, k.Counts(), maxCounts)
	before := slices.Clone(k.Counts())
	for _, kind := range []OpKind{Check, Take} {
		_, changed := k.Apply(plan(maxCounts), &Op{Kind: kind, Cost: 0})
		require.False(t, changed)
		require.Equal(t, before, k.Counts())
	}
}

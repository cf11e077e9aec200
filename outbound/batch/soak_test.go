//go:build soak

package batch_test

import (
	"fmt"
	"testing"
)

func TestSoakManyRecordsTakeTheFewestCallsWithinTheLimit(t *testing.T) {
	for _, c := range []struct{ records, options, perMinute int }{
		{200_000, 1, 100}, {200_000, 1, 1000}, {200_000, 313, 100}, {200_000, 313, 1000}, {200_000, 8, 100}, {200_000, 8, 1000},
	} {
		t.Run(fmt.Sprintf("%d records, %d options, %d a minute", c.records, c.options, c.perMinute), func(t *testing.T) {
			load(t, c.records, c.options, c.perMinute)
		})
	}
}

func TestSoakRandomOperations(t *testing.T) {
	for seed := range uint64(50) {
		randomOperations(t, seed, 2000)
	}
}

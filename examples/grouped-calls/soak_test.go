//go:build soak

package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demotest"
)

// 20,000 records in one option at 100 calls a minute, a real one, and 200,000 in many at 1,000 calls a minute.
func TestSoakGroupedCalls(t *testing.T) {
	for args, scale := range map[string]float64{
		"-records 20000 -options 1":                           1,
		"-records 20000 -options 8":                           1,
		"-records 200000 -options 40 -calls-per-minute 1000":  6,
		"-records 200000 -options 400 -calls-per-minute 1000": 6,
	} {
		r := repeated(t, scale, func(scale float64) demotest.Output {
			return demotest.RunBinary(t.Context(), t, io.Discard, "%s -scale %g", args, scale)
		})
		t.Log(r.Stdout)
		requireGrouped(t, r)
		require.LessOrEqual(t, r.Num("elapsed_seconds"), 1.15*r.Num("ideal_seconds")+r.Num("stall_ms")/100) // ten such stalls
	}
}

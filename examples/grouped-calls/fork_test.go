package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEvenPartsOfTheForkMissTheLimit: rounded up to calls, they exceed it, and with one large option
// they leave most of it unused.
func TestEvenPartsOfTheForkMissTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                             string
		records, options, perCall, limit int
		part, calls                      int
	}{
		{"4 options", 37, 4, 7, 3, 5, 4},
		{"8 options", 7892, 8, 20, 100, 250, 104},
		{"7 options, the defaults", 12_000, 7, 200, 30, 857, 35},
		{"more options than records of a minute", 12, 3, 2, 1, 0, 0},
	} {
		part := split(c.records, c.options, c.perCall*c.limit)
		require.Equal(t, c.part, part, c.name)
		require.Equal(t, c.calls, c.options*((part+c.perCall-1)/c.perCall), c.name)
	}
}

func TestDelaysOfTheForkGrow(t *testing.T) {
	t.Parallel()
	for range 100 {
		require.InDelta(t, 19.5, jobDelay(0).Seconds(), 4.5)
		require.InDelta(t, 114, jobDelay(3).Seconds(), 18)
	}
	require.Greater(t, jobDelay(10), time.Hour)
}

// TestTheForkStarvesOptions: a call a minute for three options is an even part of no record.
func TestTheForkStarvesOptions(t *testing.T) {
	t.Parallel()
	r := runBinary(t.Context(), t, io.Discard, "-processes 1 -scale 60 -algorithm fork -options 3 -records 12 -max-records 2 -calls-per-minute 1")
	require.Zero(t, r.Code, r)
	require.False(t, r.OK)
	require.Equal(t, 12, r.Lost)
	require.Equal(t, "0", r.Arrivals.String())
	require.Contains(t, r.Problem, "stopped, as no record was accepted for 3 minutes of the vendor; 12 of 12 records were not served")
}

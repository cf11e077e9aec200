package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/programtest"
)

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	programtest.WrongCommandLines(t, command(), map[string]string{
		"-colour red":                 "flag provided but not defined: -colour",
		"extra":                       `grouped-calls: unexpected argument "extra": there are only flags, such as -scale 60`,
		"-records":                    "flag needs an argument: -records",
		"-records 0":                  `invalid value "0" for flag -records: must be a whole number, 1 to 10000000`,
		"-records 7":                  "grouped-calls: -records 7 -options 8: each option must have a record",
		"-options 0":                  `invalid value "0" for flag -options: must be a whole number, 1 to 10000`,
		"-options 1.5":                `invalid value "1.5" for flag -options: must be a whole number`,
		"-max-records 10001":          `invalid value "10001" for flag -max-records: must be a whole number, 1 to 10000`,
		"-calls-per-minute none":      `invalid value "none" for flag -calls-per-minute: must be a whole number, 1 to 1000000`,
		"-processes 65":               `invalid value "65" for flag -processes: must be a whole number, 1 to 64`,
		"-scale 0":                    `invalid value "0" for flag -scale: must be a number, 0.1 to 600`,
		"-scale NaN":                  `invalid value "NaN" for flag -scale`,
		"-redis 127.0.0.1":            `invalid value "127.0.0.1" for flag -redis: must be HOST:PORT, such as 127.0.0.1:6379`,
		"-vendor localhost:80":        `invalid value "localhost:80" for flag -vendor: must be a URL without a query, such as http://127.0.0.1:8090`,
		"-algorithm magic":            `invalid value "magic" for flag -algorithm: must be gresil, fork, naive`,
		"-json=maybe":                 `invalid boolean value "maybe" for -json: must be true or false`,
		"vendor extra":                `grouped-calls vendor: unexpected argument "extra": there are only flags`,
		"vendor -scale Inf":           `invalid value "Inf" for flag -scale: must be a number, 0.1 to 600`,
		"vendor -max-records 0":       `invalid value "0" for flag -max-records: must be a whole number, 1 to 10000`,
		"vendor -calls-per-minute -1": `invalid value "-1" for flag -calls-per-minute: must be a whole number, 1 to 1000000`,
		"-records 9 -json=false -- x": `unexpected argument "x"`,
	})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, config{
		options: 8, records: 20_000, maxRecords: 200, callsPerMinute: 100, processes: 2, scale: 1, algorithm: "gresil",
	}, cfg)
	require.True(t, cfg.needsRedis())
	require.Equal(t, 8*13, cfg.calls(), "2,500 records of each option")
	require.Equal(t, 62400*time.Millisecond, cfg.ideal())
	cfg.scale = 60
	require.Equal(t, time.Second, cfg.minute())
	require.Equal(t, 1040*time.Millisecond, cfg.ideal())
}

func TestEachOptionNeedsItsOwnCalls(t *testing.T) {
	t.Parallel()
	cfg := config{options: 3, records: 602, maxRecords: 200}
	require.Equal(t, []int{201, 201, 200}, []int{cfg.recordsOf(0), cfg.recordsOf(1), cfg.recordsOf(2)})
	require.Equal(t, []int{2, 2, 1}, []int{cfg.callsOf(0), cfg.callsOf(1), cfg.callsOf(2)})
	require.Equal(t, 5, cfg.calls())
}

func TestTheSlackIsSmallBesideAShortMinute(t *testing.T) {
	t.Parallel()
	for scale, want := range map[float64][2]time.Duration{
		1: {600 * time.Millisecond, 20 * time.Millisecond}, 60: {50 * time.Millisecond, 20 * time.Millisecond},
		600: {5 * time.Millisecond, 2 * time.Millisecond},
	} {
		minute := config{scale: scale}.minute()
		require.Equal(t, want, [2]time.Duration{slack(minute), skew(minute)}, scale)
	}
}

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
		"-colour red":                          "flag provided but not defined: -colour",
		"extra":                                `campaigns: unexpected argument "extra": there are only flags, such as -cps 500`,
		"-calls":                               "flag needs an argument: -calls",
		"-calls 0":                             `invalid value "0" for flag -calls: must be a whole number, 1 to 1000000`,
		"-calls 1.5":                           `invalid value "1.5" for flag -calls: must be a whole number`,
		"-campaigns -1":                        `invalid value "-1" for flag -campaigns: must be a whole number, 1 to 10000`,
		"-campaigns 100 -calls 1000000":        "campaigns: -campaigns 100 -calls 1000000: must be 10000000 calls in total at most",
		"-workers 0":                           `invalid value "0" for flag -workers: must be a whole number, 1 to 64`,
		"-workers 65":                          `invalid value "65" for flag -workers`,
		"-cps none":                            `invalid value "none" for flag -cps: must be a whole number, 1 to 100000`,
		"-kill -1":                             `invalid value "-1" for flag -kill: must be a whole number, 0 to 100`,
		"-campaigns 2 -calls 3 -kill 6":        "campaigns: -kill 6: must be less than the number of calls, 6",
		"-redis 127.0.0.1":                     `invalid value "127.0.0.1" for flag -redis: must be HOST:PORT, such as 127.0.0.1:6379`,
		"-redis localhost:":                    `invalid value "localhost:" for flag -redis`,
		"-vendor localhost:80":                 `invalid value "localhost:80" for flag -vendor: must be a URL without a query, such as http://127.0.0.1:8090`,
		"-algorithm magic":                     `invalid value "magic" for flag -algorithm: must be gresil, article, naive`,
		"-engine river":                        `invalid value "river" for flag -engine: must be memory, asynq`,
		"-engine asynq -algorithm article":     "campaigns: -engine asynq -algorithm article: must be -algorithm gresil",
		"-json=maybe":                          `invalid boolean value "maybe" for -json: must be true or false`,
		"vendor extra":                         `campaigns vendor: unexpected argument "extra": there are only flags`,
		"vendor -port 80":                      "flag provided but not defined: -port",
		"-calls 5 -workers 2 -json=false -- x": `unexpected argument "x"`,
	})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, config{campaigns: 20, calls: 1000, workers: 4, cps: 500, algorithm: "gresil", engine: "memory"}, cfg)
	require.Equal(t, 20_000, cfg.total())
	require.Equal(t, 40*time.Second, cfg.ideal())
	require.True(t, cfg.needsRedis())
}

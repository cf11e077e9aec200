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
		"-colour red":                     "flag provided but not defined: -colour",
		"extra":                           `vendor-actor: unexpected argument "extra": there are only flags`,
		"-calls":                          "flag needs an argument: -calls",
		"-calls 0":                        `invalid value "0" for flag -calls: must be a whole number, 1 to 1000000`,
		"-calls many":                     `invalid value "many" for flag -calls: must be a whole number, 1 to 1000000`,
		"-calls 1.5":                      `invalid value "1.5" for flag -calls: must be a whole number, 1 to 1000000`,
		"-rate 0":                         `invalid value "0" for flag -rate: must be a number, 0.01 to 100000`,
		"-rate NaN":                       `invalid value "NaN" for flag -rate: must be a number, 0.01 to 100000`,
		"-rate -3":                        `invalid value "-3" for flag -rate: must be a number, 0.01 to 100000`,
		"-capacity 0":                     `invalid value "0" for flag -capacity: must be a whole number, 1 to 10000`,
		"-limit -1":                       `invalid value "-1" for flag -limit: must be a number, 0 to 100000`,
		"-limit 1e9":                      `invalid value "1e9" for flag -limit: must be a number, 0 to 100000`,
		"-scale 0":                        `invalid value "0" for flag -scale: must be a number, 0.1 to 1000`,
		"-scale Inf":                      `invalid value "Inf" for flag -scale: must be a number, 0.1 to 1000`,
		"-vendor localhost:80":            `invalid value "localhost:80" for flag -vendor: must be a URL without a query, such as http://127.0.0.1:8090`,
		"-vendor http://h/?q=1":           `invalid value "http://h/?q=1" for flag -vendor: must be a URL without a query`,
		"-algorithm magic":                `invalid value "magic" for flag -algorithm: must be gresil, article, naive`,
		"-json=maybe":                     `invalid boolean value "maybe" for -json: must be true or false`,
		"vendor -scale 0":                 `invalid value "0" for flag -scale: must be a number, 0.1 to 1000`,
		"vendor extra":                    `vendor-actor vendor: unexpected argument "extra": there are only flags`,
		"vendor -grace soon":              `invalid value "soon" for flag -grace: parse error`,
		"-calls 5 -scale 10 -json=0 -- x": `unexpected argument "x"`,
	})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, config{calls: 6000, rate: 120, capacity: 8, scale: 1, algorithm: "gresil"}, cfg)
	require.Equal(t, 50*time.Second, cfg.at(cfg.calls))
	cfg.scale = 10
	require.Equal(t, 5*time.Second, cfg.at(cfg.calls))
}

package standard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/standard"
)

// Validate reports each error of New, under the name of the field in this Config.
func TestValidateReportsFieldsOfTheOtherKindOfLimit(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]standard.Config{
		"standard.Config.Total.CutBody = true: must be false for a total limit":                                   {Total: timeout.Config{CutBody: true}},
		"standard.Config.Total.ResponseHeader = 1s: must be 0 for a total limit":                                  {Total: timeout.Config{ResponseHeader: time.Second}},
		"standard.Config.Attempt.HeadersOnly = true: must be false for the limit of an attempt":                   {Attempt: timeout.Config{HeadersOnly: true}},
		"standard.Config.Attempt.CutBody = true: must be false when HeadersOnly is set":                           {Attempt: timeout.Config{HeadersOnly: true, CutBody: true}},
		"standard.Config.Attempt.ResponseHeader = -1s: must be >= 0 (0 means no limit)":                           {Attempt: timeout.Config{ResponseHeader: -time.Second}},
		"standard.Config.HTTP.Timeout = 1s: must be 0, or at least the limit of Total, 30s":                       func() (c standard.Config) { c.HTTP.Timeout = time.Second; return c }(),
		"standard.Config.Attempt.Limit = 31s: must be at most that of Total, 30s, or nothing is retried after it": {Attempt: timeout.Config{Limit: 31 * time.Second}},
	} {
		require.EqualError(t, cfg.Validate(), want)
		_, err := standard.New(cfg)
		require.EqualError(t, err, want)
	}
}

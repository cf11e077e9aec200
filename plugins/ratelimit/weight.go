package ratelimit

import (
	"net/http"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

// WeightByLength is a Weight of 1 for each started unit of Content-Length bytes,
// and at least 1: WeightByLength(1<<10) counts KiB. A request that does not say
// its length is answered with 411. A unit below 1 counts as 1.
func WeightByLength(unit int64) func(*http.Request) (int64, error) {
	unit = max(1, unit)
	return func(r *http.Request) (int64, error) {
		if r.ContentLength < 0 {
			return 0, &server.StatusError{Status: http.StatusLengthRequired, Detail: "Send a Content-Length."}
		}
		return max(1, r.ContentLength/unit+min(1, r.ContentLength%unit)), nil
	}
}

// weigh returns what a request costs under this rule.
func (u *rule) weigh(r *http.Request) (int64, error) {
	if u.weight == nil {
		return 1, nil
	}
	n, err := u.weight(r)
	if err == nil && n < 0 {
		err = &core.ConfigError{Field: "ratelimit.ServerConfig.Weight", Value: n, Reason: "must return >= 0 (0 takes nothing)"}
	}
	return n, err
}

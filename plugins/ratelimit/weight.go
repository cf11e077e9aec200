package ratelimit

import (
	"net/http"

	"github.com/gresil/gresil/core"
)

// weigh returns the cost of a request under this rule.
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

package ratelimit

import (
	"net/http"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

// ErrLengthRequired is the error of a Weight that needs a Content-Length. The request is
// answered with 411. r.ContentLength is below 0 for a body of unknown length, and 0 for a
// request with neither a body nor the field.
var ErrLengthRequired error = &server.StatusError{Status: http.StatusLengthRequired, Detail: "Send a Content-Length."}

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

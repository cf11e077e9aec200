package ratelimit

import (
	"net/http"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

// ErrLengthRequired is for a Weight that goes by Content-Length to return when a
// request does not tell: r.ContentLength is below 0 for a body of unknown length.
// A request with neither a body nor the header has a length of 0. It is answered
// with 411.
var ErrLengthRequired error = &server.StatusError{Status: http.StatusLengthRequired, Detail: "Send a Content-Length."}

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

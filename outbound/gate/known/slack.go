package known

import (
	"net/http"

	"github.com/gresil/gresil/outbound/gate"
)

// Slack knows one limit, without a name: its key is the method and the workspace. Slack sends nothing but Retry-After, so this
// is gate.Classify without the body.
func Slack(resp *http.Response, err error) gate.Signal {
	return read(resp, err)
}

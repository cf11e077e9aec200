package known

import (
	"net/http"

	"github.com/gresil/gresil/outbound/gate"
)

// GitLab knows one limit, without a name. Its RateLimit-Reset is a Unix time, and not the seconds that are left.
func GitLab(resp *http.Response, err error) gate.Signal {
	return read(resp, err,
		gate.Header{Name: "RateLimit-Remaining", Format: gate.Remaining},
		gate.Header{Name: "RateLimit-Reset", Format: gate.ResetAt},
		gate.Header{Name: "RateLimit-ResetTime", Format: gate.ResetTime},
	)
}

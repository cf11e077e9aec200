package ratelimit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gresil/gresil/internal/phase"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/server"
)

// ServerOptions say how a [Server] applies the limits of its limiter to requests. The zero value limits each client IP by
// Config.Limit.
type ServerOptions struct {
	// Disabled lets all requests pass, as if there were no plugin.
	Disabled bool

	// Key is the key whose permits a request takes. A request without a key gets 403: to limit such requests by IP, use
	// server.FirstOf(key, server.ClientIP). A key that begins with # gets a prefix, and one longer than 256 bytes is hashed: the methods of
	// the limiter then need the Key of a LimitedError. If nil, it is server.ClientIP.
	Key server.Key
	// Weight returns how many permits a request takes. If 0, it takes none and passes. If the error is a server.Rejection, that is the
	// response; any other error is answered with 500. Weight must not read the body. If nil, each request takes 1.
	Weight func(r *http.Request) (int64, error)
	// Tier returns the name in Config.Limits that applies to the key of a request instead of Config.Limit, such as the plan of its user. A key
	// keeps its usage when its tier changes. For "" and for an unknown name, Config.Limit applies. If nil, there are no tiers.
	Tier func(r *http.Request) string
	// Routes have limits of their own, which apply instead of Config.Limit and Tier. As in a ServeMux, only the Route with the most specific
	// pattern applies; "/" selects the requests that no other Route selects. For a limit that all routes share, use Layers.
	Routes []Route
	// Layers are additional limits that many requests share, such as those of a network, of a tenant, or of all clients. Their permits are
	// taken after those of the key, in this order, which should go from narrow to wide. If one refuses, what was taken before is refunded,
	// and the layers after it are not asked: they can refuse the request when it comes again after Retry-After.
	Layers []Layer

	// Allow selects requests that pass and take no permits, such as those of an allow list. If nil, there are none.
	Allow func(r *http.Request) bool
	// Block selects requests that get 403 and take no permits, such as those of a block list. It is called before Allow. If nil, there are
	// none.
	Block func(r *http.Request) bool
	// Shadow is for trying out limits: the plugin decides, charges and counts as always, but refuses nothing and sends no
	// fields.
	Shadow bool
	// Wait lets requests wait for their permits, up to Config.MaxWait, instead of refusing them at once. Over HTTP/1, a request with an unread
	// body waits on when its client has left, and takes its permits: keep MaxWait below the timeouts of clients.
	Wait bool

	// XRateLimit adds X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, a Unix time in seconds, to each response.
	XRateLimit bool
	// RateLimit adds RateLimit and RateLimit-Policy to each response, as in draft 10 of the IETF. The name of the limiter must
	// be printable ASCII.
	RateLimit bool
	// NoXRateLimited leaves out X-Rate-Limited.
	NoXRateLimited bool
	// OnRejected answers a request that is not served. The fields are set, Retry-After included. rej.Err is a *LimitedError if a limit has
	// refused. If nil, it is server.Reject, which is also called if OnRejected writes nothing. It is not called if the response has begun.
	OnRejected func(w http.ResponseWriter, r *http.Request, rej server.Rejection)
}

// A Route gives the requests of a pattern a limit of their own.
type Route struct {
	// Pattern selects the requests. It is a pattern of [http.ServeMux]: "POST /export", "/users/{id}". Every spelling of a path that reaches
	// the handler of the pattern is selected too: those that a ServeMux redirects, such as //export, and those that inner path middleware of
	// chi rewrites, such as /export/ and /export.json. If spellings select several Routes, the request takes permits of each. If
	// http.StripPrefix or chi's PathRewrite is further in, the path before it counts.
	Pattern string
	// Limit is a name in Config.Limits. Its permits are per key and separate from those of other limits; Routes with the same Limit share
	// them. If empty, the limit is that of requests without a Route, and only the Weight can differ.
	Limit string
	// Weight returns how many permits a request takes. If nil, it is that of the options.
	Weight func(r *http.Request) (int64, error)
}

// A Layer is a limit that many requests share.
type Layer struct {
	// Key is the key whose permits are taken. The layer does not apply to a request without a key. If nil, all requests share one key.
	Key server.Key
	// Limit is a name in Config.Limits. No two Layers can have the same Limit. If SetConfig has removed the name, the layer does not apply.
	Limit string
}

// validate reports every field that cannot be used with a limiter, joined.
func (o *ServerOptions) validate(limiter *Limiter) error {
	check := validate.Of("ratelimit.ServerOptions")
	cfg := limiter.Config()
	known := func(name, field string, i int, none bool) {
		_, ok := cfg.Limits[name]
		check.That(ok || none, fmt.Sprintf("%s[%d].Limit", field, i), strconv.Quote(name), "must be a name in Config.Limits")
	}
	patterns := make([]string, len(o.Routes))
	for i, r := range o.Routes {
		patterns[i] = r.Pattern
		if reason := phase.Problem(patterns[:i+1]); reason != "" {
			check.That(false, fmt.Sprintf("Routes[%d].Pattern", i), strconv.Quote(r.Pattern), reason)
		}
		known(r.Limit, "Routes", i, r.Limit == "")
	}
	seen := map[string]bool{}
	for i, l := range o.Layers {
		known(l.Limit, "Layers", i, false)
		check.That(!seen[l.Limit], fmt.Sprintf("Layers[%d].Limit", i), strconv.Quote(l.Limit), "must not be that of another Layer")
		seen[l.Limit] = true
	}
	printable := !strings.ContainsFunc(limiter.Name(), func(r rune) bool { return r < ' ' || r > '~' })
	check.That(!o.RateLimit || printable, "RateLimit", o.RateLimit,
		"must be false for a limiter whose name is not printable ASCII, "+strconv.QuoteToASCII(limiter.Name()))
	return check.Err()
}

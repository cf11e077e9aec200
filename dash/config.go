package dash

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/gresil/gresil/internal/validate"
)

// Config configures a [Handler]. The zero value is ready to use: a page without controls.
type Config struct {
	// Keys shows keys of limits and accounts of vendors, and the user, password and query of URLs in errors. If false, they are left out,
	// since they can be secrets.
	Keys bool
	// Controls decides about each control, such as to pause a queue or to delete a group. If it returns an error, the
	// response is 403 with its text, and nothing is done. If nil, there are no controls: the page has no buttons, and a
	// request for a control gets 404. Pages of other origins can never send controls.
	Controls func(r *http.Request, a Action) error
	// Logger records each control that was done or refused, with the context of its request. If nil, it is slog.Default().
	Logger *slog.Logger
	// Hosts are the host names that are served, in lower case and without a port; a request for another one gets 421. They
	// protect a page without authentication against web sites whose names resolve to its address. If empty, every host
	// name is served.
	Hosts []string
}

// Validate reports every field that cannot be used, joined. Each is a [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("dash.Config")
	for i, host := range c.Hosts {
		ok := host != "" && hostname(host) == host
		check.That(ok, fmt.Sprintf("Hosts[%d]", i), host, "must be a host name in lower case, without a port")
	}
	return check.Err()
}

// An Action is a control that a client requests.
type Action struct {
	Verb string // such as "pause", "resume", "flush", "retry", "delete", "delete_failed", "force_open" or "close"
	Kind string // of the instance in the registry, such as "batch"
	Name string // of the instance
	Row  string // the row of the instance: an option, a queue, a key; it can be any text
}

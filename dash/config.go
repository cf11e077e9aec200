package dash

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/gresil/gresil/internal/validate"
)

const (
	defaultTitle   = "Gresil"
	defaultTimeout = 2 * time.Second
	maxTimeout     = time.Minute
)

// Config configures a [Handler]. The zero value is ready to use: a page that only shows.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Title is the heading of the page. If empty, it is "Gresil".
	Title string
	// Timeout is the longest time that a page waits for the instances, such as a batcher
	// with its groups in Redis. An instance that takes longer is shown with an error, the
	// others with their state. If zero, it is 2 seconds. It must not be negative, nor above 1
	// minute.
	Timeout time.Duration
	// Keys shows the keys of pacers and the accounts of dispatchers, and the query and user
	// of the URLs in texts of errors. If false, they are left out, as they can be secrets.
	// Options of groups and names of queues are always shown.
	Keys bool

	// Controls lets clients pause, resume, flush, delete and retry, by POST. If false, the
	// page has no buttons, and each such request is 404.
	Controls bool
	// Allow is called before each control. If it returns an error, the response is 403 with
	// the text of the error, and nothing is done. If nil, every control is allowed.
	Allow func(r *http.Request, a Action) error
	// Logger records each control that was done or refused, with the context of its
	// request. If nil, there are no records.
	Logger *slog.Logger

	// Hosts are the host names that are served, in lower case, without a port and without the
	// brackets of an IPv6 address; a request for another one is 421. It protects a page that
	// has no authentication from web sites whose names resolve to its address. If empty,
	// every host name is served.
	Hosts []string
	// Origins are other origins whose pages can send controls, each a scheme and a host, such
	// as "https://admin.example.com", for a proxy that changes the Host of requests. If empty,
	// there is none.
	Origins []string
}

// Validate reports every field that cannot be used, joined. Each is a [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("dash.Config")
	check.That(c.Timeout >= 0 && c.Timeout <= maxTimeout, "Timeout", c.Timeout, fmt.Sprintf("must be >= 0 and <= %v (0 means %v)", maxTimeout, defaultTimeout))
	for i, host := range c.Hosts {
		check.That(host != "" && hostname(host) == host, fmt.Sprintf("Hosts[%d]", i), host, "must be a host name in lower case, without a port")
	}
	for i, origin := range c.Origins {
		u, err := url.Parse(origin)
		ok := err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == origin
		check.That(ok, fmt.Sprintf("Origins[%d]", i), origin, "must be a scheme and a host, as https://admin.example.com")
	}
	return check.Err()
}

func (c Config) title() string          { return cmp.Or(c.Title, defaultTitle) }
func (c Config) timeout() time.Duration { return cmp.Or(c.Timeout, defaultTimeout) }

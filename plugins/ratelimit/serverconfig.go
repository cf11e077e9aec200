package ratelimit

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/muxpattern"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/server"
)

// ServerConfig configures a [Server]. The zero value is ready to use: 1000
// requests a minute for each client IP, in memory.
//
// A ServerConfig is a plain value: copy it to derive another one from it.
type ServerConfig struct {
	// Name names the limiter: in errors, in the registry, in the RateLimit header,
	// and of its table in the store. If empty, it is "default". Limiters of one
	// name in one Store share what their keys have taken, in this process and in
	// others; a second one without a name in one Store is refused. With HeaderDraft10
	// the name must be printable ASCII.
	Name string
	// Registry is where the plugin is found under the kind "ratelimit" and its name, and
	// through it its limiter ([core.Lookup]). If nil, it is in none.
	Registry *core.Registry

	// Limit is the limit of each key. The zero Limit is PerMinute(1000).
	Limit Limit
	// Key is the key whose permits a request takes. A request without it is answered with 403:
	// to limit such requests by IP, use server.FirstOf(key, server.ClientIP). If nil, it is
	// [server.ClientIP]. Info has the key unchanged, unless it begins with "#", which marks the
	// keys of routes and layers.
	Key server.Key
	// Weight is how many permits a request takes. If nil, it is 1. At 0 the request
	// takes none, and passes. If it is above the capacity of the limit, the
	// request is answered with 413. A negative weight, or an error, is answered
	// with 500, or with the [server.Rejection] that it is, as 411 where a
	// Content-Length is needed. In none of these cases are permits taken. It must not read
	// the body.
	Weight func(r *http.Request) (int64, error)
	// Tier, if not nil, returns the limit of a request instead of Limit, as by the plan
	// of its user. The zero Limit is Limit. The usage of a key counts in all tiers.
	// There should be few different limits: each is kept, at most 65,535 in memory.
	Tier func(r *http.Request) Limit
	// Routes are requests with a limit of their own, instead of Limit, Weight and
	// Tier.
	Routes []Route
	// Layers are additional limits of each request, whatever its route: it takes of all
	// or of none. So a network, a tenant, or all clients together can be limited: see
	// [Layer].
	Layers []Layer

	// Exclude selects requests that are not limited at all: they take nothing, get no
	// field, and are not counted. If nil, none.
	Exclude func(r *http.Request) bool
	// Block selects requests that are answered with 403, as those of a block list: they
	// take nothing and have none of the fields. Only Exclude is called before. If nil,
	// none. [server.Proxies.In] makes such lists.
	Block func(r *http.Request) bool
	// Allow selects requests that pass whatever they cost, as those of an allow list: they take nothing, also where the handler charges them (see [Charge]),
	// have X-Rate-Limited: false, and are counted. If nil, none.
	Allow func(r *http.Request) bool
	// Shadow lets all requests pass, to test a limit before it is enforced: requests are
	// decided, charged and counted, but none is refused or blocked,
	// none waits, no field is sent, and OnRejected and OnSuccess are not called. Requests
	// that Block selects are not charged.
	Shadow bool

	// ChargeInContext adds the Charge of a request to its context, where [ChargeFrom]
	// finds it. The handler then gets a copy of the request, which costs 288 bytes. It
	// is for code that has no ResponseWriter and for middleware that hides it: otherwise
	// use [ChargeOf].
	ChargeInContext bool

	// Headers are sent in addition to X-Rate-Limited, which is true on a refusal
	// and false on what passed, and to the Retry-After of a refusal. If zero,
	// there are none.
	Headers HeaderStyle
	// OnRejected answers a request that is not served. The fields are set, also Retry-After.
	// rej.Err is a *LimitedError of core/ratelimit if a limit has refused. If nil, it is
	// [server.Reject], which is also called if OnRejected writes nothing.
	OnRejected func(w http.ResponseWriter, r *http.Request, rej server.Rejection)
	// OnSuccess, if not nil, is called when a request was allowed, before the
	// handler, with the headers set: it may change and add some. It must not
	// write. It is not called when the store has failed.
	OnSuccess func(w http.ResponseWriter, r *http.Request, info Info)

	// MaxWait is how long a request may wait for its permits. If zero, it does not wait:
	// a server answers at once, other than a [Client], whose zero MaxWait is 10 seconds.
	// It must not be negative: a wait without a limit would keep the connection. A
	// request that would wait longer is refused at once; a wait ends with the context of
	// the request. net/http detects that a client
	// has left only when the body of its request was read, so a request with a body
	// continues to wait: bound MaxQueue where such requests are limited.
	MaxWait time.Duration
	// MaxQueue is how many permits may be waited for at a time, for each key; a
	// request that would be above it is refused at once. If zero, it is twice
	// the capacity of the limit, and at least 1000. If negative, none waits. It
	// must be zero without MaxWait.
	MaxQueue int64
	// MaxKeys is how many keys are held in memory at most. If zero, 1<<20. It must
	// be zero when there is a Store.
	MaxKeys int
	// Store holds the state of the keys. If nil, the plugin has one of its own in
	// memory. A given one is not closed by the plugin.
	Store Store
	// OnStoreError is the action for a request if the store fails. The zero value is
	// [Allow]: it passes, without our fields. With [Deny] it is answered with 503. With
	// [Local] this process decides with its share of the limit, which is then in the
	// fields; wrap the Store in share.New of stores/share for it.
	OnStoreError FailurePolicy
}

// A Route is a set of requests with a limit of their own. Each key has separate permits for
// it.
type Route struct {
	// Pattern selects the requests, as a pattern of [http.ServeMux]: "POST /export",
	// "/users/{id}", "api.example.com/". The most specific one counts. It is the name of the
	// limit in the RateLimit header.
	//
	// The plugin matches the path that the request has when it gets there, and the RoutePath
	// and RouteMethod of chi if they are set. A path can be of several routes, or of a route
	// and of none, depending on the router and its middleware: if it is not clean, as
	// //export, has escaped letters or slashes, or has at its end slashes and extensions, as
	// /export/ and /export.json, that middleware of chi can leave out. Such a request takes
	// permits of all of them, the general limit included, or none. If their Weights differ it
	// takes only the price that needs the most time to recover; Weight is then called more
	// than once. A HEAD is of the routes of a GET and of those of any method.
	//
	// A path that is rewritten otherwise inside of the limiter, as by [http.StripPrefix] or
	// PathRewrite of chi, is matched as it was before: write the pattern for that, or put the
	// limiter inside of the rewriting.
	Pattern string
	// Limit is the limit of each key. If zero, the route has no permits of its
	// own: its requests take those of the config, and only Weight is different.
	Limit Limit
	// Weight is how many permits a request takes. If nil, it is that of the config.
	Weight func(r *http.Request) (int64, error)
}

// problemOf returns the mistake in the pattern of the last route, or an empty text.
func problemOf(routes []Route) string {
	patterns := make([]string, len(routes))
	for i, r := range routes {
		patterns[i] = r.Pattern
	}
	return muxpattern.Problem(patterns)
}

// clone returns a copy of c with slices of its own.
func (c ServerConfig) clone() ServerConfig {
	c.Routes, c.Layers = slices.Clone(c.Routes), slices.Clone(c.Layers)
	return c
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c ServerConfig) Validate() error {
	const name = "ratelimit.ServerConfig."
	check := validate.Of("ratelimit.ServerConfig")
	check.Part(c.core().Validate(), "ratelimit.Config.", "ratelimit.")
	check.That(c.MaxWait >= 0, "MaxWait", c.MaxWait, "must be >= 0 (0 does not wait)")
	check.That(c.MaxWait != 0 || c.MaxQueue == 0, "MaxQueue", c.MaxQueue, "must be 0 without MaxWait: nothing waits")
	check.That(c.Headers < headerStyles, "Headers", c.Headers, "must be made of HeaderDraft10, HeaderXRateLimit and HeaderDraft03")
	problem := func(reason, field, name string) { check.That(reason == "", field, strconv.Quote(name), reason) }
	problem(c.nameProblem(c.Name), "Name", c.Name)
	for i, r := range c.Routes {
		problem(problemOf(c.Routes[:i+1]), fmt.Sprintf("Routes[%d].Pattern", i), r.Pattern)
		check.Part(validate.Relabel(ratelimit.Config{Limit: r.Limit}.Validate(), fmt.Sprintf("%sRoutes[%d].", name, i), "ratelimit.Config."))
	}
	for i, l := range c.Layers {
		problem(c.layerProblem(i), fmt.Sprintf("Layers[%d].Name", i), l.Name)
		of := fmt.Sprintf("%sLayers[%d].", name, i)
		check.Part(validate.Relabel(ratelimit.Config{Limit: l.Limit}.Validate(), of, "ratelimit.Config."))
	}
	return check.Err()
}

// nameProblem returns the mistake in a name for the RateLimit field, which is a structured
// field, or an empty text.
func (c ServerConfig) nameProblem(name string) string {
	if c.Headers&HeaderDraft10 != 0 && strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "must be printable ASCII with HeaderDraft10"
	}
	return ""
}

// layerProblem returns the mistake in the name of a layer, or an empty text.
func (c ServerConfig) layerProblem(i int) string {
	l := c.Layers[i]
	if l.Name == "" {
		return "must be given"
	}
	if of := taken(c.named()[:1+len(c.Routes)+i], l.Name, l.Limit); of != "" {
		return "must not be the name of " + of
	}
	return c.nameProblem(l.Name)
}

// A named is a limit of a ServerConfig and its name.
type named struct {
	of, name string
	limit    Limit
}

// named returns the limits of the plugin, of the routes and of the layers.
func (c ServerConfig) named() []named {
	all := []named{{"the plugin", cmp.Or(c.Name, defaultName), c.Limit}}
	for i, r := range c.Routes {
		all = append(all, named{fmt.Sprintf("Routes[%d]", i), r.Pattern, r.Limit})
	}
	for i, l := range c.Layers {
		all = append(all, named{fmt.Sprintf("Layers[%d]", i), l.Name, l.Limit})
	}
	return all
}

// taken returns the limit that has a name in common with another one, or an empty text. In the
// fields limits differ by their names alone.
func taken(by []named, name string, limit Limit) (of string) {
	names := policyNames(name, limit)
	for _, other := range by {
		if other.name == name || slices.ContainsFunc(policyNames(other.name, other.limit), func(n string) bool { return slices.Contains(names, n) }) {
			return other.of
		}
	}
	return ""
}

// core returns the part of c that core/ratelimit has too.
func (c ServerConfig) core() ratelimit.Config {
	return ratelimit.Config{
		Name: cmp.Or(c.Name, defaultName), Limit: c.Limit, MaxWait: c.MaxWait, MaxQueue: c.MaxQueue, MaxKeys: c.MaxKeys, Store: c.Store, OnStoreError: c.OnStoreError,
	}
}

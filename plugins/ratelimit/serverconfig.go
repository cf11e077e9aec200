package ratelimit

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/server"
)

// DefaultName is the name of a plugin whose config has none.
const DefaultName = ratelimit.DefaultName

// ServerConfig configures a [Server]. The zero value is ready to use: 1000
// requests a minute for each client IP, in memory.
//
// A ServerConfig is a plain value: copy it to derive another one from it.
type ServerConfig struct {
	// Name names the limiter: in errors, in the registry, in the RateLimit header,
	// and of its table in the store. If empty, DefaultName is used. Limiters of one
	// name in one Store share what their keys have taken, in this process and in
	// others; a second one without a name in one Store is refused. With HeaderDraft10
	// the name must be printable ASCII.
	Name string
	// Registry is where the plugin is found under the kind "ratelimit" and its name, and
	// through it its limiter ([core.Lookup]). If nil, it is in none.
	Registry *core.Registry

	// Limit is the limit of each key. The zero Limit is PerMinute(1000).
	Limit Limit
	// Key is the key whose permits a request takes. If nil, it is ByClientIP(). NoKey
	// applies to a request without such a key. Info has the key unchanged, unless it
	// begins with "#", which marks substitutes and the keys of routes and layers.
	Key Key
	// Weight is how many permits a request takes. If nil, it is 1. At 0 the request
	// takes none, and passes. If it is above the capacity of the limit, the
	// request is answered with 413. A negative weight, or an error, is answered
	// with 500, or with the status of a [*server.StatusError], as of
	// [ErrLengthRequired]. In none of these cases are permits taken. It must not read
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
	// NoKey is the action for a request without a key. The zero value is [NoKeyPeer]:
	// it takes the permits of its client IP.
	NoKey NoKeyPolicy

	// Exclude selects requests that are not limited at all: they take nothing, get no
	// field, and are not counted. If nil, none.
	Exclude func(r *http.Request) bool
	// Block selects requests that are answered with 403, as those of a block list: they
	// take nothing and have none of the fields. Only Exclude is called before. If nil,
	// none. [server.KeyIn] and [server.ClientIP.In] make such lists.
	Block func(r *http.Request) bool
	// Allow selects requests that pass whatever they cost, as those of an allow list: they take nothing, also where the handler charges them (see [Charge]),
	// have X-Rate-Limited: false, and are counted. If nil, none.
	Allow func(r *http.Request) bool
	// Shadow lets all requests pass, to test a limit before it is enforced: requests are
	// decided, charged and counted, and Hooks are called, but none is refused or blocked,
	// none waits, no field is sent, and OnRejected and OnSuccess are not called. Requests
	// that Block selects are not charged.
	Shadow bool

	// ChargeInContext adds the Charge of a request to its context, where [ChargeFrom]
	// finds it. The handler then gets a copy of the request, which costs 288 bytes. It
	// is for code that has no ResponseWriter and for middleware that hides it: otherwise
	// use [ChargeOf].
	ChargeInContext bool

	// Phase is the place in a [server.Pipeline]. If zero, it is [server.Admission].
	// The plugin that determines the key must be an outer one.
	Phase server.Phase
	// Headers are sent in addition to X-Rate-Limited, which is true on a refusal
	// and false on what passed, and to the Retry-After of a refusal. If zero,
	// there are none.
	Headers HeaderStyle
	// OnRejected, if not nil, is called when the limit refuses a request, after the
	// fields are set. It can write the response. If it writes nothing, the default is
	// sent, with the fields that it added: 429 with problem details, or 413 if
	// info.Result.RetryAfter is Never. The default has its own Retry-After,
	// Cache-Control and Content-Type.
	OnRejected func(w http.ResponseWriter, r *http.Request, info Info)
	// OnSuccess, if not nil, is called when a request was allowed, before the
	// handler, with the headers set: it may change and add some. It must not
	// write. It is not called when the store has failed.
	OnSuccess func(w http.ResponseWriter, r *http.Request, info Info)

	// MaxWait is how long a request may wait for its permits. If zero, it does not
	// wait. A request that would wait longer is refused at once; a wait ends with the
	// context of the request. It must not be negative. net/http detects that a client
	// has left only when the body of its request was read, so a request with a body
	// continues to wait: bound MaxQueue where such requests are limited.
	MaxWait time.Duration
	// MaxQueue is how many permits may be waited for at a time, for each key; a
	// request that would be above it is refused at once. If zero, it is twice
	// the capacity of the limit, and at least 1000. If negative, none waits. It
	// must be zero without MaxWait, and with a Store that is not in memory.
	MaxQueue int64
	// Order is the order in which the requests that wait for a key are served. The
	// zero value is [OldestFirst], the only one for a Store that is not in memory.
	// It must be zero without MaxWait.
	Order QueueOrder
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
	// Hooks observe the limiter. Any of them may be nil.
	Hooks Hooks
}

// A Route is a set of requests with a limit of their own. Each key has separate permits for
// it.
type Route struct {
	// Pattern selects the requests, as a pattern of [http.ServeMux]: "POST /export",
	// "/users/{id}", "api.example.com/". The most specific one counts. It is
	// matched by the plugin itself, on the path that the request has when it gets
	// there; a path that is not clean, as //export, is taken for the one that it
	// would be redirected to. It is the name of the limit in the RateLimit header.
	Pattern string
	// Limit is the limit of each key. If zero, the route has no permits of its
	// own: its requests take those of the config, and only Weight is different.
	Limit Limit
	// Weight is how many permits a request takes. If nil, it is that of the config.
	Weight func(r *http.Request) (int64, error)
}

// NoKeyPolicy is the action for a request without a key.
type NoKeyPolicy uint8

const (
	// NoKeyPeer takes the permits of its client IP, the address of its peer, apart
	// from those that a key of the same text has. Where there is no IP, as over a
	// unix socket, it is RemoteAddr as it stands, which may be one for all.
	NoKeyPeer NoKeyPolicy = iota
	// NoKeyShared takes of one bucket for all of them. One client can use it up.
	NoKeyShared
	// NoKeyDeny answers with 403, as Block does.
	NoKeyDeny

	noKeyPolicies // how many there are
)

// String returns "peer", "shared" or "deny".
func (p NoKeyPolicy) String() string {
	if p < noKeyPolicies {
		return [...]string{"peer", "shared", "deny"}[p]
	}
	return fmt.Sprintf("NoKeyPolicy(%d)", uint8(p))
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c ServerConfig) With(f func(*ServerConfig)) ServerConfig {
	c.Routes, c.Layers = slices.Clone(c.Routes), slices.Clone(c.Layers)
	f(&c)
	return c
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c ServerConfig) Validate() error {
	const name = "ratelimit.ServerConfig."
	check := validate.Of("ratelimit.ServerConfig")
	check.Part(c.core().Validate(), "ratelimit.Config.", "ratelimit.")
	check.Part(validate.Relabel(c.Key.Validate(), name+"Key", "server.ByHeader"))
	bad := func(field string, value any, reason string) { check.That(false, field, value, reason) }
	switch {
	case c.MaxWait < 0:
		bad("MaxWait", c.MaxWait, "must be >= 0 (0 does not wait)")
	case c.MaxWait == 0 && c.MaxQueue != 0:
		bad("MaxQueue", c.MaxQueue, "must be 0 without MaxWait: nothing waits")
	}
	if c.MaxWait == 0 && c.Order != OldestFirst {
		bad("Order", c.Order, "must be 0 without MaxWait: nothing waits")
	}
	if c.NoKey >= noKeyPolicies {
		bad("NoKey", c.NoKey, "must be NoKeyPeer, NoKeyShared or NoKeyDeny")
	}
	if c.Headers >= headerStyles {
		bad("Headers", c.Headers, "must be made of HeaderDraft10, HeaderXRateLimit and HeaderDraft03")
	}
	if reason := c.nameProblem(c.Name); reason != "" {
		bad("Name", fmt.Sprintf("%q", c.Name), reason)
	}
	for i, r := range c.Routes {
		if reason := c.patternProblem(i); reason != "" {
			bad(fmt.Sprintf("Routes[%d].Pattern", i), fmt.Sprintf("%q", r.Pattern), reason)
		}
		check.Part(validate.Relabel(r.Limit.Validate(), fmt.Sprintf("%sRoutes[%d].", name, i), "ratelimit."))
	}
	for i, l := range c.Layers {
		if reason := c.layerProblem(i); reason != "" {
			bad(fmt.Sprintf("Layers[%d].Name", i), fmt.Sprintf("%q", l.Name), reason)
		}
		of := fmt.Sprintf("%sLayers[%d].", name, i)
		check.Part(validate.Relabel(l.Limit.Validate(), of, "ratelimit."))
		check.Part(validate.Relabel(l.Key.Validate(), of+"Key", "server.ByHeader"))
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

// layerProblem returns the mistake in the name of a layer, or an empty text. In the fields
// limits differ by their names alone.
func (c ServerConfig) layerProblem(i int) string {
	name := c.Layers[i].Name
	if name == "" {
		return "must be given"
	}
	taken := func(other string, limit Limit) bool { return sameName(name, c.Layers[i].Limit, other, limit) }
	if taken(cmp.Or(c.Name, DefaultName), c.Limit) {
		return "must not be the name of the plugin"
	}
	for j, r := range c.Routes {
		if taken(r.Pattern, r.Limit) {
			return fmt.Sprintf("must not be the name of Routes[%d]", j)
		}
	}
	for j, l := range c.Layers[:i] {
		if taken(l.Name, l.Limit) {
			return fmt.Sprintf("must not be the name of Layers[%d]", j)
		}
	}
	return c.nameProblem(name)
}

// sameName reports whether two limits have a name in common in the fields.
func sameName(a string, limitA Limit, b string, limitB Limit) bool {
	names := policyNames(a, limitA)
	return a == b || slices.ContainsFunc(policyNames(b, limitB), func(n string) bool { return slices.Contains(names, n) })
}

// core returns the part of c that core/ratelimit has too.
func (c ServerConfig) core() ratelimit.Config {
	return ratelimit.Config{
		Name:         c.Name,
		Limit:        c.Limit,
		MaxWait:      c.MaxWait,
		MaxQueue:     c.MaxQueue,
		Order:        c.Order,
		MaxKeys:      c.MaxKeys,
		Store:        c.Store,
		OnStoreError: c.OnStoreError,
		Hooks:        c.Hooks,
	}
}

func (c ServerConfig) phase() server.Phase {
	if c.Phase == 0 {
		return server.Admission
	}
	return c.Phase
}

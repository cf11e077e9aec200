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

// DefaultName is the name of a plugin that is given none.
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

	// Limit is what each key may take. The zero Limit is PerMinute(1000).
	Limit Limit
	// Key tells whose permits a request takes. If nil, it is ByClientIP(). For a
	// request that has no such key there is NoKey. In Info a key that was found is
	// as it is, unless it begins with "#", which marks one that was not, or one of a
	// route or a layer.
	Key Key
	// Weight is how many permits a request takes. If nil, it is 1. At 0 the request
	// takes none, and passes. If it is above the capacity of the limit, the
	// request is answered with 413. A negative weight, or an error, is answered
	// with 500, or with what a [*server.StatusError] says, as [ErrLengthRequired]
	// does. In none of these cases is anything taken. It must not read the body.
	Weight func(r *http.Request) (int64, error)
	// Tier, if not nil, is asked for the limit of each request that is held to
	// Limit, as by what its user pays for. The zero Limit stands for Limit. What a
	// key has taken counts whatever the tier. There should be few different
	// limits: each is kept, and memory knows 65535.
	Tier func(r *http.Request) Limit
	// Routes are requests that are held to a limit of their own in place of all
	// the above but Key.
	Routes []Route
	// Layers are further limits that a request has to fit in, whatever its route:
	// it takes of all or of none. So a network can be held to what it may take as a
	// whole, or a tenant, or everybody: see [Layer].
	Layers []Layer
	// NoKey says what a request without a Key takes. The zero value is
	// [NoKeyPeer]: the permits of its client IP.
	NoKey NoKeyPolicy

	// Exclude tells which requests are not limited at all: they take nothing, get
	// no header, and are not counted. If nil, none.
	Exclude func(r *http.Request) bool
	// Block tells which requests are answered with 403, as those of a block list:
	// they take nothing and have none of our fields. It is asked before all else but
	// Exclude. If nil, none. [server.KeyIn] and [server.ClientIP.In] make such lists.
	Block func(r *http.Request) bool
	// Allow tells which requests pass whatever they cost, as those of an allow
	// list: they take nothing, also where the handler charges them (see [Charge]),
	// have X-Rate-Limited: false, and are counted. If nil, none.
	Allow func(r *http.Request) bool
	// Shadow lets all requests pass, to see what a limit would do before it does
	// it: they are decided and charged as ever, Hooks and Stats tell what came of
	// it, but nothing is refused or blocked, nothing waits, none of our fields is
	// sent, and OnRejected and OnSuccess are not called. What would be blocked is not
	// charged.
	Shadow bool

	// ChargeInContext adds the Charge of a request to its context, where [ChargeFrom]
	// finds it. The handler then gets a copy of the request, which costs 288 bytes. It
	// is for code that has no ResponseWriter and for middleware that hides it: otherwise
	// use [ChargeOf].
	ChargeInContext bool

	// Phase is the place in a [server.Pipeline]. If zero, it is [server.Admission].
	// It has to be further in than what finds out the key.
	Phase server.Phase
	// Headers are sent in addition to X-Rate-Limited, which is true on a refusal
	// and false on what passed, and to the Retry-After of a refusal. If zero,
	// there are none.
	Headers HeaderStyle
	// OnRejected, if not nil, is called when the limit refuses a request, with the
	// headers set. What it writes is the response. If it writes nothing the
	// default is sent, with what it added to the header: 429 with problem details,
	// or 413 where info.Result.RetryAfter is Never. The default has its own
	// Retry-After, Cache-Control and Content-Type.
	OnRejected func(w http.ResponseWriter, r *http.Request, info Info)
	// OnSuccess, if not nil, is called when a request was allowed, before the
	// handler, with the headers set: it may change and add some. It must not
	// write. It is not called when the store has failed.
	OnSuccess func(w http.ResponseWriter, r *http.Request, info Info)

	// MaxWait is how long a request may wait for its permits. If zero, it does not
	// wait. What would take longer is refused at once; a wait ends with the context
	// of the request. It must not be negative. That a client has left is noticed by
	// net/http only once the body of its request was read, so a request with a body
	// waits on for nobody: bound MaxQueue where those are limited.
	MaxWait time.Duration
	// MaxQueue is how many permits may be waited for at a time, for each key; a
	// request that would be above it is refused at once. If zero, it is twice
	// the capacity of the limit, and at least 1000. If negative, nobody waits. It
	// must be zero without MaxWait, and with a Store that is not in memory.
	MaxQueue int64
	// Order says which of the requests that wait for a key is served first. The
	// zero value is [OldestFirst], the only one for a Store that is not in memory.
	// It must be zero without MaxWait.
	Order QueueOrder
	// MaxKeys is how many keys are held in memory at most. If zero, 1<<20. It must
	// be zero when there is a Store.
	MaxKeys int
	// Store holds the state of the keys. If nil, the plugin has one of its own in
	// memory. A given one is not closed by the plugin.
	Store Store
	// OnStoreError says what happens to a request when the store fails. The zero
	// value is [Allow]: it passes, with no header of ours. With [Deny] it is
	// answered with 503. With [Local] this process decides by itself, with its share
	// of the limit, which the header fields then tell; the Store must be one that can,
	// as redisstore.
	OnStoreError FailurePolicy
	// Hooks observe the limiter. Any of them may be nil.
	Hooks Hooks
}

// A Route is a set of requests and what they are held to. Each key has permits of
// its own for it, which other requests do not touch.
type Route struct {
	// Pattern says which requests, as [http.ServeMux] writes it: "POST /export",
	// "/users/{id}", "api.example.com/". The most specific one counts. It is
	// matched by the plugin itself, on the path that the request has when it gets
	// there; a path that is not clean, as //export, is taken for the one that it
	// would be redirected to. It is the name of the limit in the RateLimit header.
	Pattern string
	// Limit is what each key may take. If zero, the route has no permits of its
	// own: its requests take those of the config, and only Weight is different.
	Limit Limit
	// Weight is how many permits a request takes. If nil, it is that of the config.
	Weight func(r *http.Request) (int64, error)
}

// NoKeyPolicy says what a request takes for which Key found none.
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

// nameProblem says what is wrong with a name for the RateLimit header, which is a
// structured field.
func (c ServerConfig) nameProblem(name string) string {
	if c.Headers&HeaderDraft10 != 0 && strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "must be printable ASCII with HeaderDraft10"
	}
	return ""
}

// layerProblem says what is wrong with the name of a layer: in the header it would
// be taken for another limit.
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

// sameName tells whether two limits would have a name in common in the header.
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

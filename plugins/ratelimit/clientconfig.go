package ratelimit

import (
	"cmp"
	"math"
	"net/http"
	"reflect"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/validate"
)

// ClientConfig configures a [Client]. The zero value is ready to use: 1000 requests a
// minute to each host, for which a request waits up to 10 seconds, and a pause if a host
// asks for it.
//
// A ClientConfig is a plain value: copy it to derive another one from it.
type ClientConfig struct {
	// Name is the name of the limiter, in errors, in the registry and of its table
	// in the store. If empty, it is "default". Limiters of one name in one Store share
	// the usage of their keys; a second one without a name in one Store is refused.
	Name string
	// Registry is where the plugin is found under the kind "ratelimit" and its name, and
	// through it its limiter and its cooldown ([core.Lookup]). If nil, it is in none.
	Registry *core.Registry
	// Limit is the limit of each key. The zero Limit is PerMinute(1000).
	Limit ratelimit.Limit
	// Limiter, if not nil, is the limit of all requests, instead of Limit. Name,
	// MaxWait, Feedback, MaxHold and CooldownStore apply to it; all other fields must be
	// zero. Holds are for each host.
	Limiter *rate.Limiter
	// Key returns the key by which the server counts, as an account: requests with the
	// same key share a limit, and are held back together. If nil, it is [client.Host]; a host
	// is then held by responses that are a limit by themselves only (see Feedback).
	Key func(req *http.Request) string
	// MaxWait is how long a request waits at most, for its turn and for a key that is
	// held; one that would wait longer, or past the deadline of its context, is
	// rejected at once. If zero, it is 10 seconds, other than in a [ServerConfig],
	// where zero does not wait. If negative, there is no limit but that deadline; a
	// ServerConfig must not have a negative one.
	MaxWait time.Duration
	// MaxQueue is how many requests may wait for a key at a time. If zero, twice
	// the capacity of the limit, and at least 1000; 1000 for a key that is held. If
	// negative, none.
	MaxQueue int64
	// Feedback returns how long the key of the request is held because of a response;
	// 0 or less does not hold it. It must not read the body, and is called by several goroutines at
	// once. If nil, it is [DefaultFeedback], but without a Key only a 429 or 503 holds, and a status from
	// 400 on with a Retry-After: with any
	// other response, a limit that is used up may be that of one resource of the host, as
	// with X-RateLimit-Resource: search of GitHub. Set DefaultFeedback itself if all
	// limits of a server are about the whole host.
	Feedback func(resp *http.Response, now time.Time) time.Duration
	// MaxHold is how long a key is held at most, whatever the server asks. If zero, it
	// is 10 minutes.
	MaxHold time.Duration
	// MaxKeys is how many keys are held in memory at most. If zero, it is
	// 1,048,576. It must be zero when there is a Store.
	MaxKeys int
	// Store holds the state of the keys. If nil, it is in memory.
	Store ratelimit.Store
	// OnStoreError is the action if the store fails. The zero value is
	// Allow. For Local, wrap the Store in share.New of stores/share.
	OnStoreError ratelimit.FailurePolicy
	// CooldownStore shares the holds of keys with the clients of the Name in other processes.
	// It may be the Store, if that is one of stores/redisstore. It must be usable as long as
	// the plugin, which does not close it. If nil, holds are those of this process.
	CooldownStore CooldownStore
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c ClientConfig) Validate() error {
	check := validate.Of("ratelimit.ClientConfig")
	check.Part(c.core().Validate(), "ratelimit.Config.", "ratelimit.")
	check.Part(validate.Relabel(c.cooldown().Validate(), "cooldown.Config.CooldownStore", "cooldown.Config.Store"), "cooldown.Config.")
	if c.Limiter == nil {
		return check.Err()
	}
	for f, v := range reflect.ValueOf(c).Fields() {
		free := slices.Contains([]string{"Name", "Limiter", "MaxWait", "Feedback", "MaxHold", "CooldownStore"}, f.Name)
		check.That(free || v.IsZero(), f.Name, "set", "must be zero with a Limiter, which knows no keys")
	}
	return check.Err()
}

// core returns the part of c that core/ratelimit has too.
func (c ClientConfig) core() ratelimit.Config {
	return ratelimit.Config{
		Name: c.Name, Limit: c.Limit, MaxWait: c.MaxWait, MaxQueue: c.MaxQueue, MaxKeys: c.MaxKeys, Store: c.Store, OnStoreError: c.OnStoreError,
	}
}

// cooldown returns the part of c that core/cooldown has too.
func (c ClientConfig) cooldown() cooldown.Config {
	queue := int(max(-1, min(c.MaxQueue, math.MaxInt32)))
	return cooldown.Config{Name: cmp.Or(c.Name, defaultName), MaxWait: c.MaxWait, MaxQueue: queue, MaxHold: c.MaxHold, Store: c.CooldownStore}
}

func keyOf(cfg *ClientConfig, req *http.Request) string {
	if cfg.Key != nil {
		return cfg.Key(req)
	}
	key, _ := client.Host(req)
	return key
}

package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/conferr"
)

// ClientConfig configures a [Client]. The zero value is ready to use: 1000
// requests a minute to each host, for which a request waits up to 10 seconds; and a
// host that asks to be left alone is.
//
// A ClientConfig is a plain value: copy it to derive another one from it.
type ClientConfig struct {
	// Name is the name of the limiter, in errors, in the registry and of its table
	// in the store. If empty, it is "default". Limiters of one name in one Store share
	// what their keys have taken; a second one without a name in one Store is refused.
	Name string
	// Registry is where the limiter, a *ratelimit.Limiter of core/ratelimit, is
	// found under the kind "ratelimit" and its name, and what holds keys, a
	// *cooldown.Cooldown, under the kind "cooldown". If nil, they are in none.
	Registry *core.Registry
	// Limit is what each key may send. The zero Limit is PerMinute(1000).
	Limit ratelimit.Limit
	// Limiter, if not nil, is the limit, in place of Limit: one for all requests.
	// Name, MaxWait, Feedback and MaxHold apply to it; all the other fields must be
	// zero. A host is held for itself.
	Limiter *rate.Limiter
	// Key returns what the server counts by, as an account: requests with the same key
	// share a limit, and are held back together. If nil, it is [client.Host]; a host
	// is then held by 429 and 503 only (see Feedback).
	Key func(req *http.Request) string
	// MaxWait is how long a request waits at most, for its turn and for a key that is
	// held; one that would wait longer, or past the deadline of its context, is
	// rejected at once. If zero, it is 10 seconds. If negative, there is no limit but
	// that deadline.
	MaxWait time.Duration
	// MaxQueue is how many requests may wait for a key at a time. If zero, twice
	// the capacity of the limit, and at least 1000; 1000 for a key that is held. If
	// negative, none. It must be zero with a Store that is not in memory.
	MaxQueue int64
	// Feedback returns how long the key of the request is held because of a response;
	// 0 or less does not hold it. It is called for every response except those of
	// [client.Reject], must not read the body, and is called by several goroutines at
	// once. If nil, it is [DefaultFeedback], but without a Key only a 429 or 503 holds: with any
	// other status, a limit that is used up may be that of one resource of the host, as
	// with X-RateLimit-Resource: search of GitHub. Set Asked itself where all limits of
	// a server are about the whole host. [NoFeedback] holds nothing.
	Feedback func(resp *http.Response, now time.Time) time.Duration
	// MaxHold is how long a key is held at most, whatever the server asks. If zero, it
	// is 10 minutes.
	MaxHold time.Duration
	// Order is the order in which those who wait are sent. The zero value is
	// OldestFirst, the only one for a Store that is not in memory.
	Order ratelimit.QueueOrder
	// MaxKeys is how many keys are held in memory at most. If zero, it is
	// 1,048,576. It must be zero when there is a Store.
	MaxKeys int
	// Store holds the state of the keys. If nil, it is in memory.
	Store ratelimit.Store
	// OnStoreError says what happens when the store fails. The zero value is
	// Allow. For Local the Store must be one that can, as redisstore.
	OnStoreError ratelimit.FailurePolicy
	// Hooks observe the limiter.
	Hooks ratelimit.Hooks
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c ClientConfig) With(f func(*ClientConfig)) ClientConfig { f(&c); return c }

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c ClientConfig) Validate() error {
	errs := []error{
		conferr.Relabel(c.core().Validate(), "ratelimit.ClientConfig.", "ratelimit.Config.", "ratelimit."),
		conferr.Relabel(c.cooldown().Validate(), "ratelimit.ClientConfig.", "cooldown.Config."),
	}
	if c.Limiter == nil {
		return errors.Join(errs...)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Registry", c.Registry != nil},
		{"Limit", c.Limit != ratelimit.Limit{}},
		{"Key", c.Key != nil},
		{"MaxQueue", c.MaxQueue != 0},
		{"Order", c.Order != 0},
		{"MaxKeys", c.MaxKeys != 0},
		{"Store", c.Store != nil},
		{"OnStoreError", c.OnStoreError != ratelimit.Allow},
		{"Hooks", !reflect.ValueOf(c.Hooks).IsZero()},
	} {
		if f.set {
			errs = append(errs, &core.ConfigError{Field: "ratelimit.ClientConfig." + f.name, Value: "set", Reason: "must be zero with a Limiter, which knows no keys and no hooks"})
		}
	}
	return errors.Join(errs...)
}

// core returns the part of c that core/ratelimit has too.
func (c ClientConfig) core() ratelimit.Config {
	return ratelimit.Config{
		Name: c.Name, Registry: c.Registry, Limit: c.Limit, MaxWait: c.MaxWait, MaxQueue: c.MaxQueue, Order: c.Order, MaxKeys: c.MaxKeys, Store: c.Store, OnStoreError: c.OnStoreError, Hooks: c.Hooks,
	}
}

// A Client holds requests back until they are within a limit, and while the server
// has asked to be left alone. It is a [client.Plugin].
//
// One response that asks for it, as a 429 with Retry-After (Feedback of the ClientConfig),
// holds back every request with the same key, those too that were waiting for their
// turn. When its time is over a single one goes out, and each that succeeds makes room
// for one more; see core/cooldown. If one of these is answered with 429 or 503 and no
// time to wait, the key is held for as long again.
//
// A response to a request that was sent before a hold can extend that hold while it
// lasts. After the hold it changes nothing.
type Client struct {
	name    string
	limiter *ratelimit.Limiter // nil with a Limiter of x/time
	gate    *cooldown.Cooldown
	mu      sync.Mutex // of SetConfig
	current atomic.Pointer[ClientConfig]
	credits atomic.Int64 // tokens of a Limiter of x/time that were given back
}

// NewClient makes a plugin.
func NewClient(cfg ClientConfig) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{name: cmp.Or(cfg.Name, ratelimit.DefaultName)}
	c.current.Store(&cfg)
	var err error
	if cfg.Limiter == nil {
		if c.limiter, err = ratelimit.New(cfg.core()); err != nil {
			return nil, conferr.Relabel(err, "ratelimit.ClientConfig.", "ratelimit.Config.")
		}
	}
	if c.gate, err = cooldown.New(cfg.cooldown()); err != nil {
		if c.limiter != nil {
			err = errors.Join(err, c.limiter.Close())
		}
		return nil, err
	}
	return c, nil
}

// Name is the name of the limiter.
func (c *Client) Name() string { return c.name }

// Config is the ClientConfig that the plugin has: as it was given, but for what the
// limiter was given alone.
func (c *Client) Config() ClientConfig {
	cfg := *c.current.Load()
	if c.limiter != nil {
		has := c.limiter.Config()
		cfg.Registry, cfg.Limit, cfg.Hooks = has.Registry, has.Limit, has.Hooks
		cfg.MaxWait, cfg.MaxQueue, cfg.Order, cfg.OnStoreError = has.MaxWait, has.MaxQueue, has.Order, has.OnStoreError
	}
	return cfg
}

// SetConfig replaces the ClientConfig while the plugin is in use, as SetConfig of
// core/ratelimit does; a Key and Feedback are for the requests that come after. Keys that
// are held stay so. An empty Name and a nil Registry are what they were. Where cfg does
// not validate, has another Name, Registry, Store or MaxKeys, or has a Limiter where
// there was none, or none where there was one, the error says so and nothing changes.
func (c *Client) SetConfig(cfg ClientConfig) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := cfg.Validate()
	if was := c.limiter == nil; was != (cfg.Limiter != nil) {
		err = errors.Join(err, &core.ConfigError{Field: "ratelimit.ClientConfig.Limiter", Value: !was, Reason: fmt.Sprintf("must stay set: %t", was)})
	}
	if name := cmp.Or(cfg.Name, c.name); name != c.name {
		err = errors.Join(err, &core.ConfigError{Field: "ratelimit.ClientConfig.Name", Value: cfg.Name, Reason: "must stay as it is"})
	}
	if err != nil {
		return err
	}
	cfg.Name = cmp.Or(cfg.Name, c.current.Load().Name)
	if c.limiter != nil {
		if err := c.limiter.SetConfig(cfg.core()); err != nil {
			return conferr.Relabel(err, "ratelimit.ClientConfig.", "ratelimit.Config.", "ratelimit.")
		}
	}
	if err := c.gate.SetConfig(cfg.cooldown()); err != nil { // it is part of what was validated
		return err
	}
	c.current.Store(&cfg)
	return nil
}

// Phase is [client.Admission]: each retry waits for its turn, and a request that
// waits does not look slow to a breaker.
func (c *Client) Phase() client.Phase { return client.Admission }

// Close ends the limiter and what holds keys, and with them every wait; later requests
// fail. A Limiter of x/time it leaves as it is.
func (c *Client) Close() error {
	err := c.gate.Close()
	if c.limiter == nil {
		return err
	}
	return errors.Join(err, c.limiter.Close())
}

// Limiter is the limiter of core/ratelimit, or nil when the limit is one of
// x/time.
func (c *Client) Limiter() *ratelimit.Limiter { return c.limiter }

// Transport returns next with the limit before it. A request that is rejected has
// an error that matches [core.ErrRejected] and tells when to come back: that of the
// limiter, or a *cooldown.HeldError. One that a mechanism further in rejects is not
// charged. A nil next is a clone of [http.DefaultTransport].
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &clientTransport{c, next}
}

type clientTransport struct {
	*Client
	next http.RoundTripper
}

// CloseIdleConnections passes the call on.
func (t *clientTransport) CloseIdleConnections() { client.CloseIdleConnections(t.next) }

// takeRate takes a token of a limiter of x/time.
func (t *clientTransport) takeRate(ctx context.Context, cfg *ClientConfig) (giveBack func(context.Context), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	most := longest(cfg)
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline))
	}
	giveBack = func(context.Context) { t.credit(int64(cfg.Limiter.Burst())) }
	if t.spend() {
		return giveBack, nil
	}
	turn := cfg.Limiter.Reserve()
	if !turn.OK() {
		return nil, t.limited(cfg, ratelimit.Never)
	}
	if d := turn.Delay(); d > most {
		turn.Cancel()
		return nil, t.limited(cfg, d)
	} else if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			turn.Cancel()
			return nil, context.Cause(ctx)
		}
	}
	return giveBack, nil
}

// credit keeps a token that was not used for the next request, but no more of them than
// most. A reservation whose time has come cannot be canceled, and x/time takes no token
// back while others wait.
func (c *Client) credit(most int64) {
	for {
		n := c.credits.Load()
		if n >= most || c.credits.CompareAndSwap(n, n+1) {
			return
		}
	}
}

// spend takes one of those, if there are any.
func (c *Client) spend() bool {
	for {
		n := c.credits.Load()
		if n == 0 {
			return false
		}
		if c.credits.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

func (t *clientTransport) limited(cfg *ClientConfig, retryAfter time.Duration) error {
	return &ratelimit.LimitedError{
		Name:   t.Name(),
		Result: ratelimit.Result{Limit: int64(cfg.Limiter.Burst()), RetryAfter: retryAfter},
	}
}

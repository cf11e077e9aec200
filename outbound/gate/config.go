package gate

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/validate"
)

// Config configures a [Gate]. The zero value has no limits: it only enforces the pauses that each host asks for.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the vendor, in the registry, in errors, and in the Store, which requires it. If empty, it is "default".
	Name string
	// Registry registers the gate under the kind "gate" and its name. If nil, it is not registered.
	Registry *core.Registry

	// Limits are the limits of the vendor. A call takes the permits of all limits that apply to it, or none; at most 8 can
	// apply to one call. If empty, there is one limit that only keeps holds, for each host: {Name: "host", Key:
	// client.Host}.
	Limits []Limit
	// Limiter is a further limit: each call takes one token of it. Calls wait in the queue of the gate, and only the first
	// of them reserves a token. If nil, there is none.
	Limiter *rate.Limiter
	// InFlight is the number of calls that can be in flight; with a Store, in all processes together. A hold that affects all present calls
	// halves the number in force, which grows again while calls succeed. A request is in flight until its response body is closed or read
	// to its end, or its context ends; a probe that has no answer after 10 seconds, until another call needs its place. If zero, there is
	// no limit.
	InFlight int
	// Slack is how much the delay from the slot to the vendor can differ between any two calls. A call that is not sent
	// within half of Slack gets another slot; the other half is for the network. With a Store, a slot whose reply is late
	// by over Slack / 2 is given back. The rate is N in each Per + Slack. If zero, it is 50 milliseconds.
	Slack time.Duration

	// Classify returns what a response, or an error, says about limits. It is called for each response and each error of a call, except for
	// errors of a context and those that match core.ErrRejected or ErrLimited; resp is nil if there is an error. It can read up to 64 KiB of
	// resp.Body, which the caller can read again; with a status from 400 on, the body is closed after 5 seconds. If nil, it is the function
	// [Classify], which a function of your own can call too.
	Classify func(resp *http.Response, err error) Signal
	// Actual returns what a call has really cost, by the name of the limit, for [Gate.Settle]. It is called for each response of a call
	// that the vendor has executed. A limit that is missing in the result keeps its estimate, so return nil if the response does not tell:
	// a cost of 0 gives the whole estimate back. Unknown limits and negative costs are ignored. It can read resp.Body as Classify does; the
	// caller gets the response after that, so do not read the body of a stream here. If nil, all costs stay the estimates.
	Actual func(resp *http.Response) map[string]int64
	// Backoff is the length of a hold if the vendor does not give it, by the number of refusals in a row. If nil, it is 15
	// seconds, doubled up to 15 minutes.
	Backoff backoff.Strategy
	// MaxHold is the longest hold that a response can ask for; a longer one is cut to it. If zero, it is 24 hours.
	MaxHold time.Duration
	// MaxAttempts is the number of times that a call is sent while the vendor refuses it because of a limit. If zero, it is
	// 5. A call that fails for another reason is not sent again.
	MaxAttempts int

	// MaxWait is the longest wait before an attempt. A call that would have to wait longer, or past the deadline of its
	// context, gets a [*LimitedError] at once. If zero, only the context limits the wait. If negative, no call waits.
	MaxWait time.Duration
	// MaxQueue is the number of calls that can wait; one more gets [ErrFull]. Background calls do not count for interactive
	// calls. If zero, it is 65,536.
	MaxQueue int

	// Store shares the gate with other processes that use its Name: make it with redisstore.New. If nil, the state is that of
	// this process. SetConfig cannot change it. The gate does not close it.
	Store Store
	// AllowOnStoreError lets each process use the limits in full while the Store is unavailable, so that n processes can
	// send n times as much. If false, a process uses its share for 10 seconds; after that, calls wait for the Store. In
	// both cases, the holds that the process knows stay in force.
	AllowOnStoreError bool
}

// A Limit is one limit of a vendor: at most N in any Per, for each key separately.
type Limit struct {
	// Name is the name of the limit in [Call], [Signal], errors and figures. It is unique in a Config; it can be empty.
	Name string
	// N is the number of calls, or of other units such as tokens, that the vendor accepts in each Per. If zero, nothing is
	// counted: the limit only has holds.
	N int64
	// Per is the period, 1 millisecond to 31 days. Calls are spaced so that no period has more than N, wherever it begins
	// on the vendor's clock.
	Per time.Duration
	// Burst is the number of units that can be sent at once when idle, and so the highest cost of a call. It is a part of
	// N: the steady rate is N - Burst + 1 in each Per. If zero, it is 1, or with Cost a tenth of N.
	Burst int64
	// Key returns the key of a request, such as an account, and whether the limit applies to the request at all. If nil,
	// it applies to every call, with the key "". A [Call] can give another key. See also [ByCall].
	Key func(r *http.Request) (key string, ok bool)
	// Cost returns the cost of a request. If nil, it is 1. A [Call] can give another cost. A call that costs 0 only waits
	// for holds. One that costs more than Burst could never be sent: its error is a *core.ConfigError. If the cost is known
	// only afterwards, return an estimate, and see [Gate.Settle].
	Cost func(r *http.Request) int64
}

// ByCall is a Limit.Key under which a limit applies only to calls whose [Call] has a key for it.
func ByCall(*http.Request) (key string, ok bool) { return "", false }

// A Call has the keys and costs of a call. Use it for calls without a request, and for keys and costs that differ from
// those of Limit.Key and Limit.Cost. The zero value has the key "" and the cost 1 in each limit without a Key.
type Call struct {
	Keys  map[string]string // by the name of the limit; if it is missing, Limit.Key decides
	Costs map[string]int64  // by the name of the limit; if it is missing, Limit.Cost decides
}

const (
	maxLimits   = 8                          // of a call
	longestSpan = 100 * 365 * 24 * time.Hour // of a Burst at the steady rate
)

// Validate reports every field that cannot be used, joined. Each is a *core.ConfigError.
func (c Config) Validate() error {
	check := validate.Of("gate.Config")
	names, always := map[string]bool{}, 0
	for i, l := range c.Limits {
		field := fmt.Sprintf("Limits[%d].", i)
		check.That(!names[l.Name], field+"Name", l.Name, "must be unique")
		if names[l.Name] = true; l.Key == nil {
			always++
		}
		check.That(l.N >= 0, field+"N", l.N, "must be >= 0 (0 is for holds only)")
		if l.N <= 0 {
			continue
		}
		check.That(l.Per >= time.Millisecond && l.Per <= 31*24*time.Hour, field+"Per", l.Per, "must be 1ms to 744h")
		check.That(l.Burst >= 0 && l.Burst <= l.N, field+"Burst", l.Burst, "must be 0 to N (0 means 1, or with Cost a tenth of N)")
		r := l.resolve(c.slack())
		check.That(l.Burst > l.N || float64(r.burst)*float64(r.spacing) <= float64(longestSpan), field+"Burst", l.Burst,
			"must be smaller: the steady rate is N - Burst + 1 in each Per")
	}
	check.That(always <= maxLimits, "Limits", always, fmt.Sprintf("must have at most %d without a Key, which apply to every call", maxLimits))
	check.That(c.Store == nil || !identity.Missing(c.Store), "Store", "a nil pointer", "must be a store, or nil for one process")
	check.That(c.Store == nil || c.Name != "", "Name", c.Name, "is required with a Store")
	check.That(c.InFlight >= 0, "InFlight", c.InFlight, "must be >= 0 (0 means no limit)")
	check.That(c.Slack >= 0 && c.Slack <= time.Minute, "Slack", c.Slack, "must be 0 to 1m0s (0 means 50ms)")
	check.That(c.MaxHold >= 0, "MaxHold", c.MaxHold, "must be >= 0 (0 means 24h0m0s)")
	check.That(c.MaxAttempts >= 0, "MaxAttempts", c.MaxAttempts, "must be >= 0 (0 means 5)")
	check.That(c.MaxQueue >= 0, "MaxQueue", c.MaxQueue, "must be >= 0 (0 means 65536)")
	check.Strategy("Backoff", c.Backoff)
	return check.Err()
}

func (c Config) slack() time.Duration { return cmp.Or(c.Slack, 50*time.Millisecond) }

// settings are a Config with its defaults.
type settings struct {
	Config
	named map[string]*limit
}

// A limit is a Limit with its defaults.
type limit struct {
	Limit
	burst   int64
	spacing time.Duration // of the slots
	shelf   time.Duration // how long after its time a slot can be used
	from    time.Time     // of the first slot
}

func settingsOf(c *Config) *settings {
	s := &settings{Config: *c, named: map[string]*limit{}}
	s.MaxHold, s.MaxAttempts, s.MaxQueue = cmp.Or(c.MaxHold, 24*time.Hour), cmp.Or(c.MaxAttempts, 5), cmp.Or(c.MaxQueue, 65_536)
	if c.Classify == nil {
		s.Classify = Classify
	}
	if c.Backoff == nil {
		s.Backoff = backoff.Exponential{Delay: 15 * time.Second, Max: 15 * time.Minute, Jitter: -1}
	}
	if len(c.Limits) == 0 {
		s.Limits = []Limit{{Name: "host", Key: client.Host}}
	}
	for _, l := range s.Limits {
		s.named[l.Name] = l.resolve(c.slack())
	}
	return s
}

func (l Limit) resolve(slack time.Duration) *limit {
	r := &limit{Limit: l, burst: cmp.Or(l.Burst, 1), shelf: slack / 2}
	if l.Burst == 0 && l.Cost != nil {
		r.burst = max(1, l.N/10)
	}
	if steady := time.Duration(l.N - r.burst + 1); l.N > 0 && steady > 0 {
		r.spacing = (l.Per + slack + steady - 1) / steady
	}
	return r
}

// A want is the key and the cost of a call in one limit, or of the vendor, which is 1.
type want struct {
	gatestore.Key
	cost int64
}

// wants returns the limits that apply to a call. An earlier element of calls overrides later ones, and all override the request, if any.
func (s *settings) wants(r *http.Request, calls []Call) (all []want, err error) {
	for _, c := range calls {
		for name := range c.Keys {
			if s.named[name] == nil {
				return nil, validate.Bad("gate.Call.Keys", name, "must be the name of a limit")
			}
		}
		for name := range c.Costs {
			if s.named[name] == nil {
				return nil, validate.Bad("gate.Call.Costs", name, "must be the name of a limit")
			}
		}
	}
	all = []want{{gatestore.Key{Vendor: true}, 1}}
	for _, of := range s.Limits {
		l := s.named[of.Name]
		w, under := want{gatestore.Key{Limit: l.Name}, 1}, l.Key == nil
		if r != nil && l.Key != nil {
			w.Key.Key, under = l.Key(r)
		}
		if r != nil && l.Cost != nil {
			w.cost = l.Cost(r)
		}
		for _, c := range slices.Backward(calls) {
			if key, ok := c.Keys[l.Name]; ok {
				w.Key.Key, under = key, true
			}
			if cost, ok := c.Costs[l.Name]; ok {
				w.cost = cost
			}
		}
		switch {
		case !under:
			continue
		case w.cost < 0, l.N > 0 && w.cost > l.burst:
			return nil, validate.Bad("gate.Call.Costs", w.cost, fmt.Sprintf("must be 0 to %d, the Burst of the limit %q", l.burst, l.Name))
		case len(all) > maxLimits:
			return nil, validate.Bad("gate.Call.Keys", len(all), fmt.Sprintf("must be at most %d limits", maxLimits))
		}
		all = append(all, w)
	}
	return all, nil
}

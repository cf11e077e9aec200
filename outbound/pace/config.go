package pace

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// Defaults and limits of a [Config].
const (
	defaultName         = "default"
	defaultSlack        = 50 * time.Millisecond
	defaultMaxQueue     = 1 << 16
	defaultRefreshEvery = time.Minute
	refreshTimeout      = 10 * time.Second

	maxRates    = 4
	maxCalls    = 1 << 30
	maxLogCalls = 1 << 16
	maxPer      = 31 * 24 * time.Hour
	minPer      = time.Millisecond

	// lookAhead is the time that the outstanding reservations of one key and process cover, beyond
	// the first and those that wait for their reply: enough for a late timer.
	lookAhead = 25 * time.Millisecond
)

// Mode is the way in which the vendor counts.
type Mode uint8

const (
	// Rolling spaces the calls evenly, so that no interval of one period has more calls than the
	// rate, wherever it begins. It fits every vendor.
	Rolling Mode = iota
	// FixedWindow is for a vendor that counts in the periods of its clock, such as whole seconds:
	// all calls of a period may be sent at once.
	FixedWindow
	// SlidingLog has the promise of Rolling, and allows all calls of a period at once after a
	// pause. It keeps the time of each call.
	SlidingLog
)

// String returns "rolling", "fixed_window" or "sliding_log".
func (m Mode) String() string {
	return text.Name(m, "rolling", "fixed_window", "sliding_log")
}

// MarshalText returns the text of String. A value without a name is an error.
func (m Mode) MarshalText() ([]byte, error) { return validate.MarshalText(m, SlidingLog) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (m *Mode) UnmarshalText(text []byte) error { return validate.UnmarshalText(m, SlidingLog, text) }

// FailurePolicy is the treatment of a call when the store cannot decide.
type FailurePolicy uint8

const (
	// Deny rejects the call with [ErrStore].
	Deny FailurePolicy = iota
	// Local decides in this process, with its share of the rate. The Store must be made by
	// share.New of stores/share, which documents the guarantees.
	Local
	// Allow sends the call at once, without a limit.
	Allow
)

// String returns "deny", "local" or "allow".
func (p FailurePolicy) String() string { return text.Name(p, "deny", "local", "allow") }

// MarshalText returns the text of String. A value without a name is an error.
func (p FailurePolicy) MarshalText() ([]byte, error) { return validate.MarshalText(p, Allow) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (p *FailurePolicy) UnmarshalText(text []byte) error {
	return validate.UnmarshalText(p, Allow, text)
}

// A Rate is a limit of the vendor: at most Calls in any Per.
type Rate struct {
	// Calls is the number of calls that the vendor accepts in each Per: 1 to 2^30, with SlidingLog
	// to 2^16.
	Calls int64
	// Per is the period: 1ms to 31 days. No two rates have the same. With FixedWindow, each is a
	// multiple of the shorter ones.
	Per time.Duration
	// Burst is, with Rolling, the number of calls that may be sent at once after a pause, and the
	// highest cost of a call. If zero, it is 1. It is at most Calls; a Burst of b costs b-1 of
	// the Calls. It must be zero in the other modes, where the highest cost is Calls.
	Burst int64
}

// Config configures a [Pacer]. Rates is required, all other fields have useful zero values.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the pacer, and its table in the Store: pacers with one name, Store and key
	// share the rate, in this process and in others. If empty, it is "default"; with a
	// Store it is required.
	Name string
	// Registry registers the pacer under the kind "pace" and its name. If nil, it is not
	// registered.
	Registry *core.Registry

	// Rates are the limits of the vendor, 1 to 4, for each key. All hold at once, and a call takes
	// its permit of all or of none.
	Rates []Rate
	// Mode is the way in which the vendor counts. The zero value is Rolling. SetConfig cannot
	// change it.
	Mode Mode
	// Slack is the shelf life of a permit: the longest time from its slot to the moment of
	// sending. The rate is lower by the part that Slack and Skew are of the period. If zero, it is
	// 50 milliseconds. It must not be negative.
	//
	// With FixedWindow, Slack is the longest time from sending to arrival, and a permit ends with
	// its window less Slack and Skew.
	Slack time.Duration
	// Skew is the longest time by which one call can take longer to the vendor than another one;
	// the part that Slack leaves unused counts too. With FixedWindow it is the largest difference
	// between the clocks of the vendor, of the store, and of this process. If zero, it is 0. It must not be negative.
	// In each mode, Slack and twice Skew must be below the shortest period.
	Skew time.Duration

	// Store holds the slots. If nil, they are in the memory of the process. SetConfig cannot
	// change it. The pacer does not close a Store that is set here.
	Store ratelimit.Store
	// OnStoreError applies when the store cannot decide. The zero value is [Deny].
	OnStoreError FailurePolicy

	// Fair returns the sub-key of a call, such as its campaign. Waiting calls are served in turn
	// over the sub-keys of their key, and in their order within one. It is not called if no other
	// call waits. If nil, calls are served in the order of arrival.
	Fair func(ctx context.Context) string
	// MaxWait is the longest wait for a permit; a call whose permit comes later is rejected at
	// once with a [*LimitedError]. If zero, only the context limits the wait. It must not be
	// negative.
	MaxWait time.Duration
	// MaxQueue is the number of calls that may wait for their turn, over all keys; one more is
	// rejected with [ErrFull]. If zero, it is 65,536. If negative, no call waits for another one.
	MaxQueue int

	// Refresh reads the rates from the vendor. A call of Wait or Reserve runs it first, if
	// RefreshEvery has passed since the last time; calls at the same time continue with the known
	// rates. Its context ends after 10 seconds, or half of the time until the deadline of the call.
	// After an error, or rates that are not valid, the last ones stay, and Hooks.RefreshFailed is
	// called. If nil, Rates stay.
	Refresh func(ctx context.Context) ([]Rate, error)
	// RefreshEvery is the shortest time between two calls of Refresh. If zero, it is 1 minute. It
	// must not be negative.
	RefreshEvery time.Duration

	// Key returns the key of a request, for [Pacer.Transport]. If nil, it is client.Host: the
	// host and port of the URL.
	Key func(req *http.Request) string

	// Hooks observe the pacer. Any of them may be nil.
	Hooks Hooks
}

// Validate reports every field that cannot be used, joined. Each is a [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("pace.Config")
	check.That(c.Mode <= SlidingLog, "Mode", c.Mode, "must be Rolling, FixedWindow or SlidingLog")
	check.That(c.Store == nil || !identity.Missing(c.Store), "Store", "a nil pointer", "must be a store, or nil for slots in memory")
	check.That(c.OnStoreError <= Allow, "OnStoreError", c.OnStoreError, "must be Deny, Local or Allow")
	check.That(c.OnStoreError != Local || c.Store != nil, "OnStoreError", c.OnStoreError, "must be Deny or Allow without a Store: memory does not fail")
	check.That(c.MaxWait >= 0, "MaxWait", c.MaxWait, "must be >= 0 (0 means no limit)")
	check.That(c.RefreshEvery >= 0, "RefreshEvery", c.RefreshEvery, fmt.Sprintf("must be >= 0 (0 means %v)", defaultRefreshEvery))
	check.That(c.Slack >= 0, "Slack", c.Slack, fmt.Sprintf("must be >= 0 (0 means %v)", defaultSlack))
	check.That(c.Skew >= 0, "Skew", c.Skew, "must be >= 0")
	check.That(len(c.Rates) >= 1 && len(c.Rates) <= maxRates, "Rates", fmt.Sprintf("%d rates", len(c.Rates)), fmt.Sprintf("must be 1 to %d: the limits of the vendor", maxRates))
	for i := range c.Rates[:min(len(c.Rates), maxRates)] {
		c.validateRate(check, i)
	}
	if check.Err() == nil {
		for i, rate := range c.Rates {
			limit, _ := settings(&c).limitOf(rate)
			check.That(ratelimit.Config{Limit: limit}.Validate() == nil, fmt.Sprintf("Rates[%d].Burst", i), rate.Burst, "must be lower: at this rate it fills in more than 5 years")
		}
	}
	return check.Err()
}

func (c Config) validateRate(check *validate.Check, i int) {
	rate, field := c.Rates[i], func(name string) string { return fmt.Sprintf("Rates[%d].%s", i, name) }
	most := int64(maxCalls)
	if c.Mode == SlidingLog {
		most = maxLogCalls
	}
	check.That(rate.Calls >= 1 && rate.Calls <= most, field("Calls"), rate.Calls, fmt.Sprintf("must be 1 to %d", most))
	if c.Mode == Rolling {
		check.That(rate.Burst >= 0 && rate.Burst <= max(1, rate.Calls), field("Burst"), rate.Burst, "must be 0 to Calls (0 means 1)")
	} else {
		check.That(rate.Burst == 0, field("Burst"), rate.Burst, "must be 0 unless the Mode is Rolling")
	}
	check.That(!slices.ContainsFunc(c.Rates[:i], func(r Rate) bool { return r.Per == rate.Per }), field("Per"), rate.Per, "must differ from that of the other rates: keep the lower one")
	if rate.Per < minPer || rate.Per > maxPer {
		check.That(false, field("Per"), rate.Per, fmt.Sprintf("must be %v to %v", minPer, maxPer))
		return
	}
	if c.Mode == FixedWindow {
		nested := !slices.ContainsFunc(c.Rates, func(r Rate) bool { return r.Per > 0 && r.Per < rate.Per && rate.Per%r.Per != 0 })
		check.That(nested, field("Per"), rate.Per, "must be a multiple of each shorter one, with FixedWindow")
	}
	slack := cmp.Or(c.Slack, defaultSlack)
	if slack < 0 || c.Skew < 0 {
		return
	}
	check.That(slack < rate.Per, "Slack", slack, fmt.Sprintf("must be below Per, %v", rate.Per))
	check.That(slack >= rate.Per || c.Skew <= (rate.Per-slack-1)/2, "Skew", c.Skew, fmt.Sprintf("must be below half of Per less Slack, %v", (rate.Per-slack)/2))
}

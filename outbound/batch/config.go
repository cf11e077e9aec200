package batch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/outbound/pace"
)

// Defaults and limits of a [Config].
const (
	defaultName        = "default"
	defaultMaxRecords  = 100
	defaultFlushAfter  = time.Minute
	defaultConcurrency = 4
	defaultTimeout     = time.Minute
	defaultLease       = 30 * time.Second
	defaultMaxAttempts = 5
	defaultMaxPending  = 1_000_000
	defaultMaxGroups   = 10_000
	defaultMaxFailed   = 1000

	mostRecords = 100_000
	mostCalls   = 10_000
	minLease    = 10 * time.Millisecond
	maxPeriod   = 31 * 24 * time.Hour
)

func defaultBackoff() backoff.Strategy {
	return backoff.Exponential{Delay: 5 * time.Second, Max: 5 * time.Minute, Jitter: 0.2}
}

// Unique is the time for which a record keeps others with its key out of its group.
type Unique uint8

const (
	// Off sends every record.
	Off Unique = iota
	// UntilFlushed is until the record is taken for a call: a later one replaces its content.
	UntilFlushed
	// UntilDone is until the record is done or has failed: a later one replaces its content until
	// it is taken for a call, and is not sent after that.
	UntilDone
)

// String returns "off", "until_flushed" or "until_done".
func (u Unique) String() string {
	return text.Name(u, "off", "until_flushed", "until_done")
}

// MarshalText returns the text of String. A value without a name is an error.
func (u Unique) MarshalText() ([]byte, error) { return validate.MarshalText(u, UntilDone) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (u *Unique) UnmarshalText(text []byte) error { return validate.UnmarshalText(u, UntilDone, text) }

// A Result is the result of one record.
type Result[R any] struct {
	Value R
	// Err is the error of the record, or nil. The record is sent again, with others that failed,
	// unless Err is [core.Permanent] or the record has used up MaxAttempts.
	Err error
}

// Config configures a [Batcher] of records of type T with results of type R. Send is required, all
// other fields have useful zero values.
//
// A Config is a plain value: copy it to derive another one from it.
type Config[T, R any] struct {
	// Name names the batcher. If empty, it is "default".
	Name string
	// Registry registers the batcher under the kind "batch" and its name. If nil, it is not
	// registered.
	Registry *core.Registry

	// Method is the vendor's method: the key of the Pacer, and the name of the groups in the Store.
	// If empty, it is the name of the batcher: with a Store that several batchers have, set this or
	// Name. SetConfig cannot change it.
	Method string
	// Send makes one call to the vendor, and returns a result for each record in the order of the
	// records. An error is that of the whole call: all records are sent again, or with a
	// [core.Permanent] error, each half of them is. With a method RetryAfter() time.Duration, the error
	// delays that by this time at least. A panic is an error. Several calls run at a time.
	//
	// [IdempotencyKey] returns the key of the call. Send must not wait for a permit of the Pacer itself.
	Send func(ctx context.Context, option string, records []T) ([]Result[R], error)
	// Option returns the option of a record: records in one call have the same. Any string is one. If
	// nil, it is "".
	Option func(record T) string

	// MaxRecords is the number of records in a call at most: 1 to 100,000. If zero, it is 100.
	MaxRecords int
	// MaxBytes is the sum of the sizes of the records in a call at most. A single larger record is
	// rejected. If zero, there is no limit. It must not be negative.
	MaxBytes int
	// Size returns the size of a record in bytes. If nil, it is the length of the encoded record
	// with a Store, and 0 without one; MaxBytes needs one of both.
	Size func(record T) int
	// FlushAfter is the age of its oldest record at which a group is sent. If zero, it is 1
	// minute. It must not be negative, nor above 31 days.
	FlushAfter time.Duration
	// FlushSize is the number of pending records at which a group is sent before FlushAfter. It
	// can be less or more than MaxRecords. If zero, a group is not sent because of its size. It
	// must not be negative.
	FlushSize int

	// Unique is the time for which a record keeps others with its Key out of its group. The zero value
	// is [Off].
	Unique Unique
	// Key returns the key of a record. It is required with Unique, and must be nil without. A
	// record with an empty key is not unique.
	Key func(record T) string
	// Exempt reports whether a record is sent at once, in a call of its own by the goroutine that
	// adds it: without a group, the Pacer, retries or Concurrency. If nil, none is.
	Exempt func(record T) bool
	// Inline makes all records exempt, for tests of code that adds records.
	Inline bool

	// Pacer is the limit of calls: each call takes one permit of the key Method. Use one Pacer for
	// all batchers, and with its Transport for direct calls, that share the limit of the vendor;
	// with a Store of its own it holds for several processes. If nil, there is no limit.
	Pacer *pace.Pacer
	// Concurrency is the number of calls in flight at most: 1 to 10,000. If zero, it is 4.
	Concurrency int
	// Timeout is the longest time of a call: its context ends then. A Send that does not return a
	// second later is abandoned: its records are sent again. If zero, it is 1 minute. It must not
	// be negative, nor above 31 days.
	Timeout time.Duration
	// Lease is the time after which another process takes the records of a process that has
	// stopped. A running process renews its leases, each third of a Lease. If zero, it is 30
	// seconds. Otherwise it must be from 10 milliseconds to 31 days.
	Lease time.Duration

	// MaxAttempts is the number of calls in which a record can fail, until it is a failed record.
	// Calls with a [core.Permanent] error of a whole call do not count. Calls during which the process
	// ended count apart, since the last error: a record can have as many of them, but at least 3. If
	// zero, it is 5; with 1, a record is not sent again after an error. It must not be negative.
	MaxAttempts int
	// Backoff is the wait before a further attempt. If nil, it is exponential from 5 seconds to 5
	// minutes, with a jitter of 20 %. If it panics, the wait is that too, and the panic counts as
	// one of a hook.
	Backoff backoff.Strategy

	// MaxPending is the number of records in the Store of this Method that are not done, except for
	// failed ones. One more is rejected with [ErrFull]. If zero, it is 1,000,000. It must not be negative.
	MaxPending int
	// MaxGroups is the number of groups of this Method. A record for one more is rejected with
	// [ErrGroups]. If zero, it is 10,000. It must not be negative.
	MaxGroups int
	// MaxFailed is the number of failed records that a group keeps for [Batcher.Retry]; beyond it, the
	// oldest are removed. If zero, it is 1,000. If negative, none is kept.
	MaxFailed int

	// Store keeps the records, encoded as JSON, and their results; so records survive the process,
	// and several processes share the groups. If nil, the records are in the memory of the
	// process, and are not encoded. SetConfig cannot change it. The batcher does not close it.
	Store Store

	// Hooks observe the batcher. Any of them may be nil.
	Hooks Hooks
}

// Validate reports every field that cannot be used, joined. Each is a [*core.ConfigError].
func (c Config[T, R]) Validate() error {
	check := validate.Of("batch.Config")
	atLeast0 := func(field string, n, zero int) {
		check.That(n >= 0, field, n, fmt.Sprintf("must be >= 0 (0 means %d)", zero))
	}
	upTo := func(field string, n, most, zero int) {
		check.That(n >= 0 && n <= most, field, n, fmt.Sprintf("must be 0 to %d (0 means %d)", most, zero))
	}
	period := func(field string, d, least, zero time.Duration) {
		check.That(d == 0 || d >= least && d <= maxPeriod, field, d, fmt.Sprintf("must be %v to %v (0 means %v)", least, maxPeriod, zero))
	}
	check.That(c.Send != nil, "Send", nil, "must be a function: it makes the calls")
	check.That(c.Unique <= UntilDone, "Unique", c.Unique, "must be Off, UntilFlushed or UntilDone")
	check.That(c.Unique == Off || c.Key != nil, "Key", nil, "must be a function, with Unique")
	check.That(c.Unique != Off || c.Key == nil, "Unique", c.Unique, "must be UntilFlushed or UntilDone, with Key")
	upTo("MaxRecords", c.MaxRecords, mostRecords, defaultMaxRecords)
	check.That(c.MaxBytes >= 0, "MaxBytes", c.MaxBytes, "must be >= 0 (0 means no limit)")
	check.That(c.Store == nil || !identity.Missing(c.Store), "Store", "a nil pointer", "must be a store, or nil for records in memory")
	check.That(c.MaxBytes <= 0 || c.Size != nil || c.Store != nil, "Size", nil, "must be a function, with MaxBytes and without a Store")
	period("FlushAfter", c.FlushAfter, 1, defaultFlushAfter)
	check.That(c.FlushSize >= 0, "FlushSize", c.FlushSize, "must be >= 0 (0 means none)")
	upTo("Concurrency", c.Concurrency, mostCalls, defaultConcurrency)
	period("Timeout", c.Timeout, 1, defaultTimeout)
	period("Lease", c.Lease, minLease, defaultLease)
	atLeast0("MaxAttempts", c.MaxAttempts, defaultMaxAttempts)
	check.Part(validate.Own(c.Backoff))
	atLeast0("MaxPending", c.MaxPending, defaultMaxPending)
	atLeast0("MaxGroups", c.MaxGroups, defaultMaxGroups)
	return check.Err()
}

// A setting is a Config with its defaults, and what follows from it.
type setting[T, R any] struct {
	Config[T, R]
	rules Rules
}

func settings[T, R any](c *Config[T, R]) *setting[T, R] {
	s := &setting[T, R]{Config: *c}
	s.Method = cmp.Or(c.Method, c.Name, defaultName)
	if s.Option == nil {
		s.Option = func(T) string { return "" }
	}
	s.MaxRecords = cmp.Or(c.MaxRecords, defaultMaxRecords)
	s.FlushAfter = cmp.Or(c.FlushAfter, defaultFlushAfter)
	s.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	s.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	s.Lease = cmp.Or(c.Lease, defaultLease)
	s.MaxAttempts = cmp.Or(c.MaxAttempts, defaultMaxAttempts)
	s.MaxPending = cmp.Or(c.MaxPending, defaultMaxPending)
	s.MaxGroups = cmp.Or(c.MaxGroups, defaultMaxGroups)
	s.MaxFailed = max(0, cmp.Or(c.MaxFailed, defaultMaxFailed))
	if s.Backoff == nil {
		s.Backoff = defaultBackoff()
	}
	s.rules = Rules{FlushSize: s.FlushSize, MaxPending: s.MaxPending, MaxGroups: s.MaxGroups}
	return s
}

// exempt reports whether a record is sent at once.
func (s *setting[T, R]) exempt(record T) bool {
	return s.Inline || s.Exempt != nil && s.Exempt(record)
}

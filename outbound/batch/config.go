package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

const (
	defaultRecords     = 100
	defaultFlushAfter  = time.Minute
	defaultConcurrency = 4
	defaultTimeout     = time.Minute
	defaultAttempts    = 25
	defaultDeliveries  = 5
	defaultPending     = 1_000_000

	maxName     = 190 // bytes
	maxPeriod   = 31 * 24 * time.Hour
	validPeriod = "must be 0 to 744h0m0s (0 means 1m0s)"
)

// Config configures a [Batcher] of records of type T with results of type R. Name and Send are required.
//
// A Config is a plain value: copy it to derive another one from it.
type Config[T, R any] struct {
	// Name names the batcher, and its groups in the Engine: at most 190 bytes. Use the name of the vendor's method. It is
	// required.
	Name string
	// Registry registers the batcher under the kind "batch" and its name. If nil, it is not registered.
	Registry *core.Registry

	// Send makes one call, and returns a result for each record, in the order of the records. Several calls run at once.
	// It must return when its context ends, and never call runtime.Goexit or FailNow of a test.
	Send func(ctx context.Context, option string, records []T) ([]Result[R], error)
	// Gate admits each call before Send is called. Send's first call through the Gate, such as a request over its
	// Transport, uses the same permit, and waits again only as described at GateCall. All calls under Send's context are
	// background calls (gate.Background), to every gate. If nil, there is no limit.
	Gate *gate.Gate
	// GateCall returns the keys and costs of a call at its Gate. If nil, there are none. Return every key that is known.
	// In Send, the call waits for a key that only the request has, such as its host, for a connection of a gate.Pool, and for a hold that
	// begins later: up to 2 seconds, which count toward Timeout. If it would have to wait longer, its
	// error is a *gate.LimitedError: return it, and the call is made later, without using an attempt.
	GateCall func(option string, records []T) gate.Call
	// Engine keeps the records, and shares the groups between processes. If nil, it is jobs.Memory(). SetConfig cannot
	// change it. Records and results are encoded as JSON.
	Engine *jobs.Engine

	// Option returns the option of a record. If nil, it is "".
	Option func(record T) string
	// Key returns the key of a record, or "" if it has none. While a record waits in its group, a later one with the same
	// key replaces its content. If nil, no record has a key.
	Key func(record T) string
	// MaxRecords is the highest number of records in a call: 1 to 100,000. If zero, it is 100.
	MaxRecords int
	// MaxBytes is the highest total size of the records in a call, encoded as JSON. Add refuses a single record that is
	// larger. If zero, there is no limit.
	MaxBytes int
	// FlushAfter is the age of the oldest record at which its group is due, at most 31 days. If zero, it is 1 minute.
	FlushAfter time.Duration
	// FlushSize is the number of records at which a group is due before FlushAfter. If zero, a group is not due because of
	// its size.
	FlushSize int

	// Concurrency is the number of calls in flight in this process, at most 10,000. If zero, it is 4. SetConfig cannot change
	// it.
	Concurrency int
	// Timeout is the longest time of a call, without the wait for the Gate before it; then its context ends. If zero, it is 1
	// minute.
	Timeout time.Duration
	// Backoff is the wait before a further attempt. If nil, it grows from 15 seconds so that 25 attempts take two and a half
	// weeks.
	Backoff backoff.Strategy
	// MaxAttempts is the number of calls in which a record can fail; then it has failed. If zero, it is 25.
	MaxAttempts int
	// MaxDeliveries is how many processes in a row can die while they send a record; then it has failed. After two, a call
	// is halved. If zero, it is 5.
	MaxDeliveries int
	// MaxPending is the number of records that can be kept, failed ones included. Beyond it, Add returns [ErrFull]. If
	// zero, it is 1,000,000.
	MaxPending int
}

// Validate reports every field that cannot be used, joined. Each is a *core.ConfigError.
func (c Config[T, R]) Validate() error {
	check := validate.Of("batch.Config")
	atLeast0 := func(field string, n int, zero string) {
		check.That(n >= 0, field, n, "must be >= 0 (0 means "+zero+")")
	}
	odd := func(r rune) bool { return unicode.IsControl(r) || r == '{' || r == '}' }
	named := strings.TrimSpace(c.Name) != "" && len(c.Name) <= maxName && utf8.ValidString(c.Name) && !strings.ContainsFunc(c.Name, odd)
	check.That(named, "Name", c.Name, fmt.Sprintf("must be 1 to %d bytes of UTF-8 without control characters and braces, and not blank", maxName))
	check.That(c.Engine == nil || groups.Open(c.Engine) != nil, "Engine", "an empty one", "must be made by jobs.Memory or asynqjobs.New")
	check.That(c.Send != nil, "Send", nil, "must be a function: it makes the calls")
	check.That(c.GateCall == nil || c.Gate != nil, "GateCall", "a function", "must be nil without a Gate")
	check.That(c.MaxRecords >= 0 && c.MaxRecords <= 100_000, "MaxRecords", c.MaxRecords, "must be 0 to 100000 (0 means 100)")
	atLeast0("MaxBytes", c.MaxBytes, "no limit")
	check.That(c.FlushAfter >= 0 && c.FlushAfter <= maxPeriod, "FlushAfter", c.FlushAfter, validPeriod)
	atLeast0("FlushSize", c.FlushSize, "that the size does not matter")
	check.That(c.Concurrency >= 0 && c.Concurrency <= 10_000, "Concurrency", c.Concurrency, "must be 0 to 10000 (0 means 4)")
	check.That(c.Timeout >= 0 && c.Timeout <= maxPeriod, "Timeout", c.Timeout, validPeriod)
	check.Strategy("Backoff", c.Backoff)
	atLeast0("MaxAttempts", c.MaxAttempts, "25")
	atLeast0("MaxDeliveries", c.MaxDeliveries, "5")
	atLeast0("MaxPending", c.MaxPending, "1000000")
	for _, v := range []any{*new(T), *new(R)} {
		_, err := json.Marshal(v)
		_, never := errors.AsType[*json.UnsupportedTypeError](err) // another error is about the zero value
		check.That(!never, "Send", fmt.Sprintf("%T", v), fmt.Sprintf("must have types that can be encoded as JSON: %v", err))
	}
	return check.Err()
}

// settingsOf returns a Config with its defaults.
func settingsOf[T, R any](c *Config[T, R]) *Config[T, R] {
	s := *c
	s.MaxRecords, s.FlushAfter = cmp.Or(c.MaxRecords, defaultRecords), cmp.Or(c.FlushAfter, defaultFlushAfter)
	s.Concurrency, s.Timeout = cmp.Or(c.Concurrency, defaultConcurrency), cmp.Or(c.Timeout, defaultTimeout)
	s.MaxAttempts, s.MaxDeliveries = cmp.Or(c.MaxAttempts, defaultAttempts), cmp.Or(c.MaxDeliveries, defaultDeliveries)
	s.MaxPending = cmp.Or(c.MaxPending, defaultPending)
	s.Backoff = cmp.Or[backoff.Strategy](c.Backoff, backoff.Exponential{Delay: 15 * time.Second, Max: 36 * time.Hour, Jitter: -1})
	if c.Option == nil {
		s.Option = func(T) string { return "" }
	}
	if c.Key == nil {
		s.Key = func(T) string { return "" }
	}
	if c.GateCall == nil {
		s.GateCall = func(string, []T) gate.Call { return gate.Call{} }
	}
	return &s
}

func lifeCycle[T, R any]() *instance.Kind[Config[T, R], *Config[T, R]] {
	return &instance.Kind[Config[T, R], *Config[T, R]]{
		Kind: "batch", Type: "batch.Config", Settings: settingsOf[T, R],
		Fields: func(c *Config[T, R]) instance.Fields { return instance.Fields{Name: &c.Name, Registry: &c.Registry} },
		Fixed: func(check *validate.Check, old, cfg *Config[T, R]) {
			cfg.Engine = cmp.Or(cfg.Engine, old.Engine)
			check.That(cfg.Engine == old.Engine, "Engine", "another one", "must stay as it is")
			before, after := cmp.Or(old.Concurrency, defaultConcurrency), cmp.Or(cfg.Concurrency, defaultConcurrency)
			check.That(before == after, "Concurrency", after, fmt.Sprintf("must stay %d", before))
		},
	}
}

package asynqjobs

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/gresil/gresil/internal/validate"
)

// Defaults and limits of a [Config].
const (
	defaultPoll            = 25 * time.Millisecond
	defaultPollScheduled   = 200 * time.Millisecond
	defaultInline          = 2 * time.Second
	defaultShutdownTimeout = time.Minute
	minPoll                = time.Millisecond
	maxPoll                = time.Minute
	maxInline              = 10 * time.Second // well below the lease, which is extended meanwhile
	repairEvery            = time.Minute
	recoverEvery           = 5 * time.Second
)

// Config configures an [Engine]. All fields have useful zero values.
type Config struct {
	// Poll is the time after which an idle process looks for a pending job, on average. If zero, it
	// is 25 milliseconds. Otherwise it must be from 1 millisecond to 1 minute.
	Poll time.Duration
	// PollScheduled is the time after which a process looks for scheduled jobs that are due. If
	// zero, it is 200 milliseconds. Otherwise it must be from 1 millisecond to 1 minute.
	PollScheduled time.Duration
	// Inline is the longest time that a job waits in its process, if it runs again soon: it is exact
	// then, and keeps its place among the Concurrency of its queue, at most once in a row. A longer
	// wait is in Redis, in whole seconds. If zero, it is 2 seconds. If negative, each wait is in
	// Redis. It is at most 10 seconds.
	Inline time.Duration
	// ShutdownTimeout is the time after which Run gives up handlers that do not return, and puts
	// their jobs back. It must be longer than jobs.Config.Grace. If zero, it is 1 minute. It must
	// not be negative.
	ShutdownTimeout time.Duration
	// Repair repairs stuck jobs at the beginning of Run, and once a minute: see [Engine.Repair].
	Repair bool
	// Logger gets the messages of asynq. If nil, they are dropped.
	Logger *slog.Logger
}

// Validate reports every field that cannot be used, joined. Each is a [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("asynqjobs.Config")
	poll := func(field string, d, zero time.Duration) {
		check.That(d == 0 || d >= minPoll && d <= maxPoll, field, d, fmt.Sprintf("must be %v to %v (0 means %v)", minPoll, maxPoll, zero))
	}
	poll("Poll", c.Poll, defaultPoll)
	poll("PollScheduled", c.PollScheduled, defaultPollScheduled)
	check.That(c.Inline <= maxInline, "Inline", c.Inline, fmt.Sprintf("must be at most %v (0 means %v)", maxInline, defaultInline))
	check.That(c.ShutdownTimeout >= 0, "ShutdownTimeout", c.ShutdownTimeout, fmt.Sprintf("must be >= 0 (0 means %v)", defaultShutdownTimeout))
	return check.Err()
}

// withDefaults returns the Config with its defaults.
func (c Config) withDefaults() Config {
	c.Poll = cmp.Or(c.Poll, defaultPoll)
	c.PollScheduled = cmp.Or(c.PollScheduled, defaultPollScheduled)
	c.Inline = cmp.Or(c.Inline, defaultInline)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, defaultShutdownTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

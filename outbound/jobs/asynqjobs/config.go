package asynqjobs

import (
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gresil/gresil/internal/validate"
)

const (
	defaultPoll   = 100 * time.Millisecond
	busyPoll      = 25 * time.Millisecond  // the interval at which a server looks for pending jobs
	scheduledPoll = 200 * time.Millisecond // the interval at which a server looks for scheduled jobs
	idleAfter     = 2 * time.Second        // after which a server without work ends
	settleEvery   = 250 * time.Millisecond // the interval of tries to reach Redis at the end of a job
	mostAlone     = time.Minute            // the longest wait of a job for its turn to run alone, or behind one that does
	inline        = 2 * time.Second        // the longest wait of a job in its process; well below the lease, which is extended meanwhile
)

// Config configures an engine. The zero value is ready to use.
type Config struct {
	// Prefix is the first part of the names of the keys of groups: up to 64 letters, digits or any of -._:. If empty, it is gresil. The keys of
	// asynq always begin with asynq:. So programs that share a database of Redis need different names of queues and batchers, whatever their
	// prefixes.
	Prefix string
	// Poll is the interval at which a process looks for jobs. If zero, it is 100 milliseconds. Otherwise it must be from 1 millisecond to 1
	// second.
	Poll time.Duration
	// Logger gets the messages of asynq. If nil, they are dropped.
	Logger *slog.Logger
}

// Validate reports every field that cannot be used, joined. Each is a *core.ConfigError.
func (c Config) Validate() error {
	check := validate.Of("asynqjobs.Config")
	other := func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._:", r)
	}
	check.That(len(c.Prefix) <= 64 && !strings.ContainsFunc(c.Prefix, other), "Prefix", c.Prefix,
		"must be up to 64 letters, digits or any of -._: (empty means gresil)")
	ok := c.Poll == 0 || c.Poll >= time.Millisecond && c.Poll <= time.Second // a server with work must not be idle for idleAfter
	check.That(ok, "Poll", c.Poll, "must be 1ms to 1s (0 means 100ms)")
	return check.Err()
}

package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gresil/gresil/core"
)

// Mode is how decisions get to the server.
type Mode uint8

const (
	// Strict sends each decision by itself, over a connection of its own for the time.
	Strict Mode = iota
	// Coalesced sends decisions together: at once when no request is under way, otherwise
	// when its reply is in. There is no timer, where the server is near. Decisions on one key keep the order
	// of the calls. It takes two connections, or one to each server of a Cluster; to a server
	// further away than a third of Timeout up to eight times as many (see Distance above).
	Coalesced
)

// String returns "strict" or "coalesced".
func (m Mode) String() string {
	switch m {
	case Strict:
		return "strict"
	case Coalesced:
		return "coalesced"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// MarshalText returns the same text as String.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText takes the text of a mode, as from a flag.
func (m *Mode) UnmarshalText(text []byte) error {
	for mode := Strict; mode <= Coalesced; mode++ {
		if mode.String() == string(text) {
			*m = mode
			return nil
		}
	}
	return &core.ConfigError{Field: "redisstore.Mode", Value: string(text), Reason: "must be strict or coalesced"}
}

// Defaults of a [Config].
const (
	// DefaultName is the name of a store that is given none.
	DefaultName = "default"
	// DefaultPrefix is what names begin with when nothing is said.
	DefaultPrefix = "gresil"
	// DefaultTimeout is how long a decision may take when nothing is said.
	DefaultTimeout = 50 * time.Millisecond
	// DefaultDialTimeout is how long a connection is tried for when nothing is said.
	DefaultDialTimeout = 5 * time.Second
)

// Config configures a [Store]. The zero value is ready to use.
type Config struct {
	// Name names the store in its Registry. It is no part of the names of keys. If empty,
	// DefaultName.
	Name string
	// Registry is where the store is found under the kind "ratelimitstore" and its name, and so
	// by metrics. If nil, it is in none.
	Registry *core.Registry

	// Prefix is what the names of all keys begin with. Stores of one server with
	// different prefixes have nothing in common. It has 1 to 64 letters, digits or any
	// of "-._:". If empty, DefaultPrefix.
	Prefix string
	// Mode is how decisions get to the server. The zero value is [Strict].
	Mode Mode
	// Timeout is how long a decision may take, with all that it needs; after that it is an
	// error. The context of the call may end it before: by its deadline, and with Coalesced also
	// when it is canceled. If zero, DefaultTimeout. It must not be negative.
	//
	// A decision takes one round trip, so Timeout must be longer than that: take at least twice as
	// much. The default fits a server up to 25 ms away; [Store.Check] measures it.
	Timeout time.Duration
	// DialTimeout limits how long it takes to make a connection and to inspect the server on
	// the first one: the dial, TLS, HELLO and INFO. No decision waits that long. A connection is
	// made once and not for each call, and goes on to be made when the call that needed it has
	// ended after Timeout. If zero, DefaultDialTimeout. It must not be negative.
	DialTimeout time.Duration
	// HashKeys writes only hashes of keys to the server, for keys that are secrets.
	// Otherwise those that are short and plain are legible. To change it changes the names of
	// keys, as another Prefix does: every key starts afresh, and its usage so far no longer counts.
	HashKeys bool
	// DenyCache is how many keys are remembered at most that the server has just refused: a
	// take of the same cost under the same limit is refused without it until RetryAfter is
	// over, and for at most a second. So who is refused and keeps asking costs the server next
	// to nothing. It lets nothing more through. Its price is that what another Store gives back,
	// resets or raises, as one in another process, and what the server itself forgets, is
	// heeded up to a second later; of this Store it is at once. Remaining and the
	// times are those of the refusal, counted down: with what others took or waited for
	// since, they may be better or worse than they say. Everything else goes to the
	// server, also a take of 0 or of more than the limit. A key takes some 400 bytes, or 900
	// when it was refused four different costs, which are remembered at most. If zero, none
	// is. It must not be negative.
	DenyCache int
	// Warn is told once of what is wrong with the server but does not keep it from
	// being used. It is called by Check, or by a goroutine of its own. If nil, slog.Warn is.
	Warn func(problem error)
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c Config) With(f func(*Config)) Config { f(&c); return c }

// Validate reports every field that cannot be used, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(field string, value any, reason string) {
		errs = append(errs, &core.ConfigError{Field: "redisstore.Config." + field, Value: value, Reason: reason})
	}
	if len(c.Prefix) > maxPlain || !plain(c.Prefix, ":") {
		bad("Prefix", c.Prefix, fmt.Sprintf("must be up to %d letters, digits or any of -._: (empty means %s)", maxPlain, DefaultPrefix))
	}
	if c.Mode > Coalesced {
		bad("Mode", c.Mode, "must be Strict or Coalesced")
	}
	if c.Timeout < 0 {
		bad("Timeout", c.Timeout, fmt.Sprintf("must be >= 0 (0 means %v)", DefaultTimeout))
	}
	if c.DialTimeout < 0 {
		bad("DialTimeout", c.DialTimeout, fmt.Sprintf("must be >= 0 (0 means %v)", DefaultDialTimeout))
	}
	if c.DenyCache < 0 {
		bad("DenyCache", c.DenyCache, "must be >= 0 (0 means none)")
	}
	return errors.Join(errs...)
}

func (c Config) name() string {
	if c.Name == "" {
		return DefaultName
	}
	return c.Name
}

func (c Config) prefix() string {
	if c.Prefix == "" {
		return DefaultPrefix
	}
	return c.Prefix
}

func (c Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return DefaultTimeout
	}
	return c.Timeout
}

func (c Config) dialTimeout() time.Duration {
	if c.DialTimeout == 0 {
		return DefaultDialTimeout
	}
	return c.DialTimeout
}

func (c Config) warn(problem error) {
	if c.Warn == nil {
		slog.Warn(problem.Error()) //nolint:sloglint // what nobody asked for should be seen all the same
		return
	}
	c.Warn(problem)
}

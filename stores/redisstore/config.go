package redisstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/validate"
)

// A Mode is the way in which decisions are sent to the server.
type Mode string

// The modes. The decisions of Strict and Coalesced are the same.
const (
	// Strict sends each decision separately, in one round trip.
	Strict Mode = "strict"
	// Coalesced sends the decisions that arrive during a request together, in the next one. If the server is near, no timer is involved, and
	// decisions on one key keep the order of the calls. It uses two connections, or one to each server of a Cluster. To a server whose round
	// trip is longer than a third of Timeout, it uses up to eight times as many (see Distance above).
	Coalesced Mode = "coalesced"
	// Lease is Coalesced with one difference: if a process takes from a key more than eight times in a second, it takes permits in advance,
	// and decides by itself until they are spent. It takes as many at once as it was asked for in a second: at most
	// [Config].MaxLease, and at most a quarter of the limit divided by the number of processes. It gives back what was not used for one to
	// two seconds, and the rest at Close. When no permits are left, it refuses without the server, for up to 100 ms at a time. See Modes
	// above.
	//
	// A process that is killed loses the permits that it holds. Remaining does not count those that other processes hold.
	Lease Mode = "lease"
)

// Defaults of a [Config].
const (
	defaultPrefix   = "gresil"
	defaultTimeout  = 50 * time.Millisecond
	defaultMaxLease = 100
)

// Config configures a [Store]. The zero value is ready to use.
type Config struct {
	// Name is the name of the store in its Registry. It is not a part of the names of keys. If empty, it is "default".
	Name string
	// Registry registers the store under the kind "store" and its name. If nil, it is not registered.
	Registry *core.Registry

	// Prefix is the first part of the names of all keys. Stores on the same server with different prefixes share nothing.
	// It has 1 to 64 letters, digits or any of "-._:". If empty, it is "gresil".
	Prefix string
	// Mode is the way in which decisions are sent to the server. If empty, it is [Strict].
	Mode Mode
	// MaxLease is how many permits of a key a process takes in advance at most, with the Mode [Lease]. If 0, it is 100. 1, a negative
	// number, and any number with another Mode are an error.
	MaxLease int64
	// Timeout is the longest time of a decision, with all its steps; after that, the decision returns an error. The
	// context of the call can end it earlier: by its deadline and, while the call waits behind others in Coalesced or Lease, by its
	// cancellation. If zero, it is 50 milliseconds. It must not be negative.
	//
	// A decision takes one round trip, so Timeout must be longer than that: set at least twice the round trip. The default
	// fits a round trip of up to 25 ms; [Store.Check] measures it.
	Timeout time.Duration
	// HashKeys writes only hashes of keys to the server, for keys that are secrets. If false, short plain keys can be read
	// there. Changing HashKeys changes the names of these keys, so they start without usage.
	HashKeys bool
}

// Validate reports every field that cannot be used, joined. Each is a *core.ConfigError.
func (c Config) Validate() error {
	check := validate.Of("redisstore.Config")
	check.That(len(c.Prefix) <= maxPlain && plain(c.Prefix, ":"), "Prefix", c.Prefix,
		fmt.Sprintf("must be up to %d letters, digits or any of -._: (empty means %s)", maxPlain, defaultPrefix))
	check.That(c.Mode == "" || c.Mode == Strict || c.Mode == Coalesced || c.Mode == Lease, "Mode", c.Mode,
		"must be strict, coalesced or lease (empty means strict)")
	check.That(c.MaxLease == 0 || c.MaxLease > 1 && c.Mode == Lease, "MaxLease", c.MaxLease,
		fmt.Sprintf("must be 0 (which means %d), or at least 2 with the Mode lease", defaultMaxLease))
	check.That(c.Timeout >= 0, "Timeout", c.Timeout, fmt.Sprintf("must be >= 0 (0 means %v)", defaultTimeout))
	return check.Err()
}

func (c Config) name() string { return cmp.Or(c.Name, "default") }

func (c Config) prefix() string { return cmp.Or(c.Prefix, defaultPrefix) }

func (c Config) timeout() time.Duration { return cmp.Or(c.Timeout, defaultTimeout) }

func (c Config) maxLease() int64 { return cmp.Or(c.MaxLease, defaultMaxLease) }

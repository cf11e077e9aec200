package timeout

import (
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/deadline"
)

type (
	// Config configures a timeout: see core/timeout.
	Config = timeout.Config
	// An Error is the error of a request that exceeded its limit: see core/timeout.
	Error = timeout.Error
	// Stats are the counts of a timeout: see core/timeout.
	Stats = timeout.Stats
	// A Timeout limits the time of operations: see core/timeout.
	Timeout = timeout.Timeout
)

// ErrTimeout is matched by an *Error.
var ErrTimeout = timeout.ErrTimeout

// New makes a timeout.
func New(cfg Config) (*Timeout, error) { return timeout.New(cfg) }

// A mechanism is a Timeout with methods for adapters.
type mechanism = deadline.Timeout[Config]

// mechanismOf returns the mechanism of t, or that of a new timeout if t is nil.
func mechanismOf(t *Timeout) *mechanism {
	if t == nil {
		t = core.Must(New(Config{}))
	}
	return (*mechanism)(t)
}

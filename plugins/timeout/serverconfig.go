package timeout

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/server"
)

// ServerConfig configures a [Server]. The zero value is ready to use: 30 seconds
// until the response begins.
//
// A ServerConfig is a plain value: copy it to derive another one from it.
type ServerConfig struct {
	// Name names the plugin, also in its errors. If empty, it is "server".
	Name string
	// Registry registers the plugin under the kind "timeout" and its name. If nil, it
	// is not registered.
	Registry *core.Registry

	// Disabled switches the plugin off: handlers run without it, and are not counted. An
	// Override sets it for one request.
	Disabled bool

	// Limit is the time that a handler may take until its response begins. If
	// zero, it is 30 seconds. If negative, there is no limit, and the handler
	// is only counted.
	Limit time.Duration
	// CutBody extends the limit until the handler returns. A response that has
	// begun is then aborted together with its connection.
	CutBody bool
	// MaxBuffer is how many bytes of a response are buffered: with more than that
	// it begins. If zero, it is 64 KiB. It must not be negative.
	MaxBuffer int

	// OnRejected answers a request at the limit. rej.Err is an [*Error], and there is no
	// Retry-After. It can call [server.Reject] with another Status, as 504 for a handler that
	// waits for another server on behalf of the client. If nil, it is server.Reject, which is
	// also called if OnRejected writes nothing.
	OnRejected func(w http.ResponseWriter, r *http.Request, rej server.Rejection)

	// Late, if not nil, is called when a handler ends after its request was answered at
	// the limit, by the goroutine of that handler. A panic in it is recovered and
	// counted.
	Late func(ctx context.Context, end Ended)
	// Panicked, if not nil, is called when a handler panics in time, before the panic
	// continues in the goroutine of the request, where the stack of the handler is lost.
	// It is not called for [http.ErrAbortHandler]. A panic in it is recovered and
	// counted.
	Panicked func(ctx context.Context, end Ended)
}

// Ended describes a handler that ended late, or by a panic.
type Ended struct {
	Elapsed time.Duration // since it began
	Panic   any           // its value, or nil
	Stack   []byte        // of the panic
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c ServerConfig) Validate() error {
	check := validate.Of("timeout.ServerConfig")
	check.That(c.MaxBuffer >= 0, "MaxBuffer", c.MaxBuffer, "must be >= 0 (0 means 65536)")
	return check.Err()
}

func (c ServerConfig) maxBuffer() int { return cmp.Or(c.MaxBuffer, 64<<10) }

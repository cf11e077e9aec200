package ratelimit

import (
	"sync/atomic"

	"github.com/gresil/gresil/internal/stripe"
)

// ServerStats are the counters of a [Server]. Each request is counted once, when it is
// decided. Excluded requests are not counted. The Limiter counts permits.
type ServerStats struct {
	Allowed     uint64 // fitted into the limit, or cost nothing
	Rejected    uint64 // did not: answered with 429 or 413; one that a handler rejects (Charge.Reject) was counted as Allowed before
	AllowListed uint64 // not limited, by Allow
	Blocked     uint64 // answered with 403: by Block, or without a key
	Shadowed    uint64 // passed only because of Shadow
	Failed      uint64 // could not be decided: Weight, Tier or the store failed, the limiter was closed, or the client left while it waited
}

// counters are hot where most requests are.
type counters struct {
	allowed, rejected                      stripe.Counter
	allowListed, blocked, shadowed, failed atomic.Uint64
}

func (c *counters) stats() ServerStats {
	return ServerStats{
		Allowed: c.allowed.Load(), Rejected: c.rejected.Load(), AllowListed: c.allowListed.Load(),
		Blocked: c.blocked.Load(), Shadowed: c.shadowed.Load(), Failed: c.failed.Load(),
	}
}

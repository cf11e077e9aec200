// Package limitstore registers the stores of limiters.
package limitstore

import (
	"cmp"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
)

// Stats are the counters of a store that many processes share, as its method Stats
// returns them. Each operation that was not canceled is counted once: in Decided, Denied,
// Timeouts, Failed or Unsent.
type Stats struct {
	Decided  uint64 // operations that the server decided
	Leased   uint64 // of Decided, those that a process decided by permits taken in advance, or by an earlier refusal
	Denied   uint64 // takes refused without the server by stores/denycache
	Timeouts uint64 // operations without a reply before the timeout of the store or the deadline of the caller
	Failed   uint64 // operations that failed otherwise
	Unsent   uint64 // operations not sent, because the server is unavailable
	Local    uint64 // of Timeouts, Failed and Unsent, those decided in this process by stores/share

	// Sent is the number of operations sent to the server, with the refunds of permits granted to
	// callers that had left. Sent/RoundTrips is the average batch size.
	Sent uint64
	// RoundTrips is the number of requests, and RoundTripTime their total duration, each until the
	// reply or the error. RoundTripsWithin has the number of requests that took no longer than a
	// duration, for several durations.
	RoundTrips       uint64
	RoundTripTime    time.Duration
	RoundTripsWithin map[time.Duration]uint64

	// Unavailable reports whether the server, or one of several servers in use, counts as unavailable:
	// after several failures in a row, until a request to it succeeds.
	Unavailable bool
	// Instances is the number of processes that share the limits while the server is unavailable,
	// as known to this process, of the table with the most; 0 if they are not counted, as without a
	// limiter with ratelimit.Local.
	Instances int
	// Ahead is how many permits of one key all processes together hold in advance at most: redisstore.Config.MaxLease for each instance. A
	// window can exceed its limit by so many, but by no more than a quarter. It is 0 without leases, and until the instances are counted.
	Ahead int64
}

// Of returns the Stats of a store that is wrapped, if it has any.
func Of(store any) (s Stats) {
	if counts, ok := store.(interface{ Stats() Stats }); ok {
		s = counts.Stats()
	}
	return s
}

// Register adds a store to r, which may be nil, and returns a function that removes it. field is that of the name in a Config. If
// the name is empty, it is "default".
func Register(r *core.Registry, field, name string, store interface{ Stats() Stats }) (remove func(), err error) {
	name = cmp.Or(name, "default")
	source := registry.Source{Figures: func() registry.Figures { return figures(store.Stats()) }}
	remove, err = (*registry.Registry)(r).Add(registry.Entry{Kind: "store", Name: name, Instance: store, Source: source})
	if err != nil {
		return nil, validate.Bad(field, name, err.Error())
	}
	return remove, nil
}

func figures(s Stats) (f registry.Figures) {
	f.Counts("operations_total", "Operations on a shared store by result; canceled ones are not counted.", "result",
		"decided", s.Decided, "denied", s.Denied, "timeout", s.Timeouts, "error", s.Failed, "unsent", s.Unsent)
	f.Count("local_operations_total", "Operations that the process decided with its share of the limit, because the server did not.",
		s.Local)
	if s.Ahead > 0 {
		f.Count("leased_operations_total", "Takes that the process decided by permits taken in advance, or by an earlier refusal.", s.Leased)
		f.Add("ahead_permits", "Permits of a key that all processes have taken in advance at most: a window can exceed its limit by so many.",
			float64(s.Ahead))
	}
	f.Count("sent_operations_total", "Operations sent to the server; divided by the count of round trips, the mean size of a batch.",
		s.Sent)
	down := 0.0
	if s.Unavailable {
		down = 1
	}
	f.Add("unavailable", "1 while the server, or one of several, is unavailable: after failures in a row, until a request succeeds.", down)
	if s.Instances > 0 {
		f.Add("instances", "Processes that share the store; no sample where the store does not count them.", float64(s.Instances))
	}
	return append(f, registry.Figure{
		Name: "round_trip_seconds", Help: "Duration of requests to the server, including failed ones.",
		Dist: &registry.Distribution{Count: s.RoundTrips, Sum: s.RoundTripTime, Within: s.RoundTripsWithin},
	})
}

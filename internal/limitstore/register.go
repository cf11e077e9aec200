// Package limitstore registers the stores of limiters.
package limitstore

import (
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
)

// Register adds a store to r, which may be nil, and returns a function that removes it. field is that of the name in a Config.
func Register(r *core.Registry, field, name string, store interface{ Stats() ratelimit.StoreStats }) (remove func(), err error) {
	source := registry.Source{Figures: func() registry.Figures { return figures(store.Stats()) }}
	remove, err = (*registry.Registry)(r).Add(registry.Entry{Kind: "ratelimitstore", Name: name, Instance: store, Source: source})
	if err != nil {
		return nil, validate.Bad(field, name, err.Error())
	}
	return remove, nil
}

func figures(s ratelimit.StoreStats) (f registry.Figures) {
	f.Counts("operations_total", "Operations on a shared store by result; canceled ones are not counted.", "result",
		"decided", s.Decided, "denied", s.Denied, "timeout", s.Timeouts, "error", s.Failed, "unsent", s.Unsent)
	f.Count("local_operations_total", "Operations that the process decided with its share of the limit, because the server did not.", s.Local)
	f.Count("sent_operations_total", "Operations sent to the server; divided by the count of round trips, the mean size of a batch.", s.Sent)
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

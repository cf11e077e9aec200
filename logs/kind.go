package logs

// kinds returns the functions that attach to the mechanisms that are logged. A new mechanism
// has a line here.
func kinds() []func(*subject, any) bool {
	return []func(*subject, any) bool{
		kindOf((*subject).retry),
		kindOf((*subject).limiter),
		kindOf((*subject).breaker),
		kindOf((*subject).breakers),
		kindOf((*subject).timeout),
		kindOf((*subject).cooldown),
		kindOf((*subject).bulkhead),
		kindOf((*subject).reporter),
		kindOf((*subject).events),
	}
}

// kindOf returns a function that calls attach for an instance of type T: it adds the counters
// of the instance and observes it. The function reports whether the instance is of that type.
func kindOf[T any](attach func(*subject, T)) func(*subject, any) bool {
	return func(s *subject, instance any) bool {
		x, ok := instance.(T)
		if ok {
			attach(s, x)
		}
		return ok
	}
}

// dropper is an event.Log of any type.
type dropper interface{ Dropped() uint64 }

func (s *subject) events(l dropper) { s.count("events dropped", false, l.Dropped) }

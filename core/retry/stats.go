package retry

import (
	"sync/atomic"

	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/stripe"
)

// Stats are counts since the policy was made.
//
// Calls that ended are Succeeded + Recovered + Failed + FailedRetried. Attempts
// that ended are Succeeded + Recovered, RetryableFailures and FinalFailures. A call
// whose context was done beforehand is in Failed, and has no attempt. A call that
// panics is in no count of calls; the attempt that panics is not counted as an attempt,
// but as a retry it is in Retries.
type Stats struct {
	Succeeded     uint64 // calls whose first attempt succeeded
	Recovered     uint64 // calls that succeeded after one or more retries
	Failed        uint64 // calls that failed without a retry
	FailedRetried uint64 // calls that failed after one or more retries

	Retries           uint64 // attempts that were begun after the first of a call
	RetryableFailures uint64 // attempts that failed in a way that is retried
	FinalFailures     uint64 // attempts that failed in another way, or under a context that was done

	// Suppressed is the number of retries that were wanted but not made although an
	// attempt was left, by reason, as in Suppressed[retry.Deadline]. It is 0 for the
	// verdicts before Deadline, which do not suppress a retry.
	Suppressed [OverBudget + 1]uint64
}

type counters struct {
	succeeded                                                   stripe.Counter
	recovered, failed, failedRetried, retries, retryable, final atomic.Uint64
	suppressed                                                  [OverBudget + 1]atomic.Uint64
	waits                                                       [2]registry.Histogram // before retries: of Backoff, or as long as an error asked for
}

// Stats returns the counts so far. They are read one after the other, so that a
// call that ends meanwhile may be in some of them only.
func (p *Policy) Stats() Stats {
	c := &p.counters
	s := Stats{
		Succeeded: c.succeeded.Load(), Recovered: c.recovered.Load(),
		Failed: c.failed.Load(), FailedRetried: c.failedRetried.Load(),
		Retries: c.retries.Load(), RetryableFailures: c.retryable.Load(), FinalFailures: c.final.Load(),
	}
	for v := Deadline; v <= OverBudget; v++ {
		s.Suppressed[v] = c.suppressed[v].Load()
	}
	return s
}

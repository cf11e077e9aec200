package retry

import (
	"math"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/stripe"
)

// budgetCalls is the number of calls whose unused payments a [Budget] keeps at most.
const budgetCalls = 1000

// A Budget limits the retries of all the policies that share it, so that a
// dependency that is down does not get three times as many calls as one that is up.
// Any number of goroutines may use it.
//
// It works with tokens. Every call pays in a part of a token when its first attempt has
// ended, well or badly; rejected attempts ([core.ErrRejected]) were not made, and do not
// pay. Every retry takes one token. Without a token the retry is not made: the [Verdict]
// is OverBudget. A retry that is not made for another reason, such as a canceled wait or
// a rejection, costs nothing, unless a function of the user panics before it.
//
// A call that is begun inside a retry ([FromContext]) pays nothing, whatever its
// policy, since it is itself a repetition. A call inside a first attempt pays, so two
// nested policies that share a Budget can each make their ratio of retries.
//
// Paying in is an atomic addition, and reads no clock. The zero value allows no retry:
// make a Budget with [NewBudget].
type Budget struct {
	calls stripe.Counter // that paid in

	// In billionths of a token: then a nanosecond at one per second is one of them.
	ratio, mostSaved, mostSpare int64
	perSecond                   int64
	base                        time.Time

	mu      sync.Mutex
	counted uint64        // calls that are in saved
	saved   int64         // paid in by calls
	spare   int64         // of minPerSecond
	at      time.Duration // since base, when spare was up to date
}

const token = int64(time.Second)

// A purse is the source of a token, to which it can be put back.
type purse uint8

const (
	noPurse purse = iota
	sparePurse
	savedPurse
)

// NewBudget makes a budget that allows ratio retries per call, and minPerSecond
// retries each second in addition, so that the few calls of a quiet service can be
// retried. 0.2 and 3 are good values. The payments of 1,000 calls are kept, or
// one retry if those pay for less. Of minPerSecond, the retries of one second are kept,
// also at the start: so many can be made at once, and then one each 1/minPerSecond
// seconds. ratio is from 0 to 1 and rounded to billionths, minPerSecond from 0 to a
// billion; another value is a [*core.ConfigError].
func NewBudget(ratio float64, minPerSecond int) (*Budget, error) {
	if !(ratio >= 0 && ratio <= 1) {
		return nil, &core.ConfigError{Field: "retry.NewBudget.ratio", Value: ratio, Reason: "must be between 0 and 1"}
	}
	if minPerSecond < 0 || minPerSecond > 1e9 {
		return nil, &core.ConfigError{Field: "retry.NewBudget.minPerSecond", Value: minPerSecond, Reason: "must be between 0 and 1000000000"}
	}
	b := &Budget{perSecond: int64(minPerSecond), base: time.Now()}
	b.ratio = int64(math.Round(ratio * float64(token)))
	if b.ratio > 0 {
		b.mostSaved = max(token, budgetCalls*b.ratio)
	}
	b.mostSpare = b.perSecond * token
	b.spare = b.mostSpare
	return b, nil
}

// Left returns the number of retries that could be made now.
func (b *Budget) Left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked()
	return int(b.spare/token + b.saved/token)
}

func (b *Budget) pay() { b.calls.Inc() }

// take takes a token out, or returns noPurse.
func (b *Budget) take() purse {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked()
	switch {
	case b.spare >= token: // first, since it is lost after a second
		b.spare -= token
		return sparePurse
	case b.saved >= token:
		b.saved -= token
		return savedPurse
	}
	return noPurse
}

// putBack undoes a take. The next settleLocked applies the upper limits.
func (b *Budget) putBack(from purse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if from == sparePurse {
		b.spare += token
	} else {
		b.saved += token
	}
}

// settleLocked adds the payments and the elapsed time since its last call.
func (b *Budget) settleLocked() {
	now := time.Since(b.base)
	since := max(0, min(now-b.at, time.Second)) // the clock of a synctest bubble may be behind
	b.at = now
	b.spare = min(b.mostSpare, b.spare+int64(since)*b.perSecond)

	calls := b.calls.Load()
	paid := calls - b.counted
	b.counted = calls
	b.saved = min(b.mostSaved, b.saved+int64(min(paid, 1e9))*b.ratio) //nolint:gosec // at most a billion
}

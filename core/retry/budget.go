package retry

import (
	"math"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/stripe"
)

// budgetCalls is the highest number of calls whose unused payments a [Budget] keeps.
const budgetCalls = 1000

// A Budget limits the retries of all policies that share it, so that a service that is down does not get three times as many calls. It is
// safe for concurrent use. The zero value allows no retry.
//
// It works with tokens. When the first attempt of a call ends, successful or not, the call pays in a part of a token. Rejected attempts,
// which were not made, and calls inside of a retry of another policy do not pay. A retry takes one token. If it is not made after all, because of a
// canceled wait or a rejection, the token is put back.
type Budget struct {
	calls stripe.Counter // calls that have paid in

	// In billionths of a token: at one token a second, a nanosecond adds one of them.
	ratio, mostSaved, mostSpare int64
	perSecond                   int64
	base                        time.Time

	mu      sync.Mutex
	counted uint64        // calls whose payments are in saved
	saved   int64         // paid in by calls
	spare   int64         // added by perSecond
	at      time.Duration // since base, when spare was up to date
}

const token = int64(time.Second)

// A purse is where a token came from, and where it is put back.
type purse uint8

const (
	noPurse purse = iota
	sparePurse
	savedPurse
)

// NewBudget makes a budget that allows ratio retries for each call, and in addition perSecond retries a second, for services with few
// calls. 0.2 and 3 are good values. The budget keeps the payments of at most 1,000 calls, and what perSecond adds in one second. If ratio
// is not between 0 and 1, or perSecond not between 0 and a billion, the error is a [*core.ConfigError].
func NewBudget(ratio float64, perSecond int) (*Budget, error) {
	if !(ratio >= 0 && ratio <= 1) {
		return nil, &core.ConfigError{Field: "retry.NewBudget.ratio", Value: ratio, Reason: "must be between 0 and 1"}
	}
	if perSecond < 0 || perSecond > 1e9 {
		return nil, &core.ConfigError{Field: "retry.NewBudget.perSecond", Value: perSecond, Reason: "must be between 0 and 1000000000"}
	}
	b := &Budget{perSecond: int64(perSecond), base: time.Now()}
	b.ratio = int64(math.Ceil(ratio * float64(token))) // up: three times a third is a token
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

// take takes a token, or returns noPurse if there is none.
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

package retry

import (
	"math"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/stripe"
)

// BudgetCalls is how many calls a [Budget] remembers at most: what more than so
// many have paid in, and nobody took out, is forgotten.
const BudgetCalls = 1000

// A Budget limits the retries of all the policies that share it, so that a
// dependency that is down is not asked three times as much as one that is up.
// Any number of goroutines may use it.
//
// It works with tokens. Every call pays a part of one in when the first attempt
// that was made has ended, well or badly; one that was rejected
// ([core.ErrRejected]) was not made. Every retry takes one token out. A retry for
// which there is none is not made: the [Verdict] is OverBudget. One that is not
// made for another reason, as when its wait is canceled or it is rejected, costs
// nothing, unless a function of the user's panics on the way to it.
//
// A call that is begun inside a retry ([FromContext]) pays nothing in, whatever its
// policy: it is no first try. One inside a first attempt does, so two policies
// inside each other that share a Budget may each make their ratio of retries.
//
// Paying in is an atomic addition, and reads no clock. The zero value, which
// allows no retry, is of no use: make one with [NewBudget].
type Budget struct {
	calls stripe.Counter // that paid in

	// In billionths of a token: then a nanosecond at one per second is one of them.
	ratio, mostSaved, mostSpare int64
	perSecond                   int64
	base                        time.Time

	mu      sync.Mutex
	counted uint64        // calls that are in saved
	saved   int64         // of what the calls paid in
	spare   int64         // of what each second brings
	at      time.Duration // since base, when spare was up to date
}

const token = int64(time.Second)

// A purse is where a token came from, and goes back to.
type purse uint8

const (
	noPurse purse = iota
	sparePurse
	savedPurse
)

// NewBudget makes a budget that allows ratio retries per call, and minPerSecond
// retries each second besides, so that the few calls of a quiet service can be
// retried. 0.2 and 3 are good values. What the calls paid in is kept, but no more
// than [BudgetCalls] of them pay; with a ratio that is so small that these pay
// less than one retry, one is kept. minPerSecond is also how many of its retries
// are kept: so many may be made at once, the first ones too, and then one each
// 1/minPerSecond seconds. ratio is from 0 to 1 and rounded to billionths,
// minPerSecond from 0 to a billion; what cannot be used is a [*core.ConfigError].
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
		b.mostSaved = max(token, BudgetCalls*b.ratio)
	}
	b.mostSpare = b.perSecond * token
	b.spare = b.mostSpare
	return b, nil
}

// Left is the number of retries that could be made now.
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
	case b.spare >= token: // first, since it does not keep
		b.spare -= token
		return sparePurse
	case b.saved >= token:
		b.saved -= token
		return savedPurse
	}
	return noPurse
}

// putBack undoes a take. What is too much then, the next settleLocked cuts off.
func (b *Budget) putBack(from purse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if from == sparePurse {
		b.spare += token
	} else {
		b.saved += token
	}
}

// settleLocked brings in what was paid, and what time brought, since the last time.
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

package retry

// BudgetCalls is for the tests of this package.
const BudgetCalls = budgetCalls

// Pay pays in for n calls, as their first attempts do.
func (b *Budget) Pay(n int) {
	for range n {
		b.pay()
	}
}

// Forget is as if the calls of years were not counted yet.
func (b *Budget) Forget() { b.counted -= 1 << 40 }

// Take takes a token out, and returns a function that puts it back, or nil if there is none.
func (b *Budget) Take() (putBack func()) {
	if p := b.take(); p != noPurse {
		return func() { b.putBack(p) }
	}
	return nil
}

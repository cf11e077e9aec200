package retry

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

// Nobody asked for a retry in a million million calls.
func TestBudgetDoesNotOverflowOverCallsThatNobodyLookedAt(t *testing.T) {
	t.Parallel()
	for _, ratio := range []float64{1, 0.2, 1e-9} {
		b := core.Must(NewBudget(ratio, 0))
		b.counted -= 1 << 40
		require.Equal(t, max(1, int(ratio*BudgetCalls)), b.Left())
	}
}

func TestTokensThatArePutBackAreNoMoreThanThereMayBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := core.Must(NewBudget(0.001, 2)) // one token of each purse more is too much
		for range BudgetCalls {
			b.pay()
		}
		require.Equal(t, 3, b.Left())
		var taken []purse
		for p := b.take(); p != noPurse; p = b.take() {
			taken = append(taken, p)
		}
		require.Equal(t, []purse{sparePurse, sparePurse, savedPurse}, taken, "what does not keep comes first")
		for range BudgetCalls {
			b.pay()
		}
		time.Sleep(time.Second)
		require.Equal(t, 3, b.Left())
		for _, p := range taken {
			b.putBack(p)
		}
		require.Equal(t, 3, b.Left())
	})
}

func TestBudgetLosesNothingUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := core.Must(NewBudget(1, 0))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					b.pay()
					b.putBack(b.take()) // one was just paid
				}
			})
		}
		wg.Wait()
		require.Equal(t, 800, b.Left())
	})
}

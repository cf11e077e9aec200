package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/dispatch"
)

// So many calls wait for a cooldown, and then for their turns, without a loss and without
// much more time than the vendor needs.
func TestTenThousandCallsWaitForACooldown(t *testing.T) {
	t.Parallel()
	for name, scope := range map[string]dispatch.Scope{"vendor": dispatch.ScopeVendor, "account": dispatch.ScopeAccount} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n, capacity = 10_000, 10
				answers := make([]answer, n+capacity)
				for i := range answers {
					answers[i].after = time.Millisecond
				}
				answers[0] = answer{0, &limitError{15 * time.Second, scope}}
				s, d := newScript(answers...), newDispatcher(t, config{Capacity: capacity, Account: ownAccount})
				keys := make([]string, n)
				for i := range keys {
					keys[i] = "a"
				}
				start := time.Now()
				calls(t, d, s, keys...)
				t.Log(time.Since(start))
				require.Less(t, time.Since(start), 20*time.Second)
				require.Equal(t, uint64(n), d.Stats().Succeeded)
			})
		})
	}
}

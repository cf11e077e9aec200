package demo

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Bubbles begin at a whole second of the clock.
func TestArrivals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at, within []int // in ms, with a limit of 2
		want       Verdict
	}{
		"no calls":           {nil, nil, Verdict{}},
		"a half-open second": {[]int{0, 1, 1000, 1001}, []int{0, 1, 1000, 1001}, Verdict{Arrivals: 4, MostSliding: 2, MostFixed: 2, Seconds: 1.001}},
		"a window at 999":    {[]int{0, 999, 1000, 1998}, []int{0, 999, 1000}, Verdict{Arrivals: 4, MostSliding: 3, MostFixed: 2, Seconds: 1.998}},
		"a refused call counts": { // so one that is repeated at once is never served
			[]int{0, 300, 999, 1100, 1300, 1900, 2400},
			[]int{0, 300, 2400},
			Verdict{Arrivals: 7, MostSliding: 4, MostFixed: 3, Seconds: 2.4},
		},
		"two at once": {[]int{100, 100, 2100}, []int{100, 100, 2100}, Verdict{Arrivals: 3, MostSliding: 2, MostFixed: 2, Seconds: 2}},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, start := NewArrivals(t.Context(), time.Second), time.Now()
			var within []int
			for _, ms := range c.at {
				time.Sleep(time.Until(start.Add(time.Duration(ms) * time.Millisecond)))
				if a.Add(http.Header{}) <= 2 {
					within = append(within, ms)
				}
			}
			require.Equal(t, c.within, within, name)
			require.Equal(t, c.want, a.Judge(), name)
		})
	}
}

func TestDuplicateKeys(t *testing.T) {
	t.Parallel()
	a := NewArrivals(t.Context(), time.Second)
	for _, key := range []string{"a", "b", "c", "a", "c"} {
		a.Key(key)
	}
	v := a.Judge()
	require.Equal(t, [2]int{3, 2}, [2]int{v.Unique, v.Duplicates})
}

// The clocks of the worker and the vendor need not agree.
func TestTimeOnWayIsStall(t *testing.T) {
	t.Parallel()
	for _, clock := range []time.Duration{0, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			a := NewArrivals(t.Context(), time.Second)
			for _, way := range []int{3, 2, 90, 4} {
				time.Sleep(time.Second)
				sent := time.Now().Add(clock - time.Duration(way)*time.Millisecond)
				a.Add(http.Header{sentHeader: {strconv.FormatInt(sent.UnixMicro(), 10)}})
			}
			require.InDelta(t, 88, a.Judge().Stall, 0)
			a.stall.longest.Store(int64(100 * time.Millisecond))
			require.InDelta(t, 100, a.Judge().Stall, 0)
		})
	}
}

package demo

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newTestArrivals begin at a whole second of the clock.
func newTestArrivals() *Arrivals {
	a := NewArrivals(time.Second)
	a.zero = time.Unix(1_000_000, 0)
	return a
}

// arrive adds calls at times, in ms, and returns those that are within a limit.
func arrive(a *Arrivals, limit int, at ...int) (within []int) {
	for _, ms := range at {
		if a.Add(a.zero.Add(time.Duration(ms)*time.Millisecond), http.Header{}, limit) {
			within = append(within, ms)
		}
	}
	return within
}

func TestArrivals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at, within []int // with a limit of 2
		want       Verdict
	}{
		"no calls":           {nil, nil, Verdict{}},
		"a half-open second": {[]int{0, 1, 1000, 1001}, []int{0, 1, 1000, 1001}, Verdict{Arrivals: 4, MostSliding: 2, MostFixed: 2, Seconds: 1.001}},
		"no phase at 999":    {[]int{0, 999, 1000, 1998}, []int{0, 999, 1000}, Verdict{Arrivals: 4, MostSliding: 3, MostFixed: 2, Seconds: 1.998}},
		"a refused call counts": { // so one that is repeated at once is never served
			[]int{0, 300, 999, 1100, 1300, 1900, 2400},
			[]int{0, 300, 2400},
			Verdict{Arrivals: 7, MostSliding: 4, MostFixed: 4, Seconds: 2.4},
		},
		"any order": {
			[]int{2500, 100, 1099, 200, 1900},
			[]int{2500, 100, 1099, 200, 1900},
			Verdict{Arrivals: 5, MostSliding: 3, MostFixed: 3, Seconds: 2.4},
		},
	} {
		a := newTestArrivals()
		require.Equal(t, c.within, arrive(a, 2, c.at...), name)
		require.Equal(t, c.want, a.Judge(0), name)
	}
}

// No second that begins at a multiple of 50 ms has both bursts, but one between does.
func TestPhasesOfFixedSeconds(t *testing.T) {
	t.Parallel()
	for first, fixed := range map[int]int{920: 10, 950: 20, 970: 10} {
		a := newTestArrivals()
		for i := range 10 {
			arrive(a, 0, first+i%2, first+990+i%2)
		}
		v := a.Judge(0)
		require.Equal(t, [2]int{20, fixed}, [2]int{v.MostSliding, v.MostFixed}, first)
	}
}

func TestDuplicateKeys(t *testing.T) {
	t.Parallel()
	a := newTestArrivals()
	for _, key := range []string{"a", "b", "c", "a", "c"} {
		a.Key([]byte(key))
	}
	v := a.Judge(0)
	require.Equal(t, [2]int{3, 2}, [2]int{v.Unique, v.Duplicates})
}

// The clocks of the worker and the vendor need not agree.
func TestTimeOnWayIsStall(t *testing.T) {
	t.Parallel()
	for _, clock := range []time.Duration{0, time.Hour, -time.Hour} {
		a := newTestArrivals()
		for i, way := range []int{3, 2, 90, 4} {
			sent := a.zero.Add(time.Duration(i) * time.Second)
			h := http.Header{sentHeader: {strconv.FormatInt(sent.Add(clock).UnixMicro(), 10)}}
			a.Add(sent.Add(time.Duration(way)*time.Millisecond), h, 0)
		}
		require.InDelta(t, 88, a.Judge(10*time.Millisecond).Stall, 0)
		require.InDelta(t, 100, a.Judge(100*time.Millisecond).Stall, 0)
	}
}

package pace_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/stores/redisstore"
)

// TestPermitsOfSeveralPeriodsLieWithinThem: Redis tells the windows of a reservation under two rates.
func TestPermitsOfSeveralPeriodsLieWithinThem(t *testing.T) {
	t.Parallel()
	const slack, skew = 20 * time.Millisecond, 5 * time.Millisecond
	rates := []pace.Rate{{Calls: 50, Per: 600 * time.Millisecond}, {Calls: 20, Per: 200 * time.Millisecond}}
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	store := core.Must(redisstore.New(client, redisstore.Config{Mode: redisstore.Coalesced, Timeout: time.Minute}))
	defer func() { _ = errors.Join(store.Close(), client.Close()) }()
	var mu sync.Mutex
	var wg sync.WaitGroup
	sums := map[time.Duration]map[int64]int64{}
	for _, r := range rates {
		sums[r.Per] = map[int64]int64{}
	}
	for range 2 { // processes
		p := newPacer(t, pace.Config{Name: "vendor", Mode: pace.FixedWindow, Rates: rates, Slack: slack, Skew: skew, Store: store})
		for range 10 {
			wg.Go(func() {
				for range 8 {
					permit, err := p.Wait(t.Context(), "k", 1)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, r := range rates {
						first, last := permit.At.Add(-skew).UnixNano()/int64(r.Per), permit.NotAfter.Add(slack+skew).UnixNano()/int64(r.Per)
						if first != last {
							t.Errorf("a permit of two periods of %v", r.Per)
						}
						sums[r.Per][first]++
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for _, r := range rates {
		for _, n := range sums[r.Per] {
			require.LessOrEqual(t, n, r.Calls, "%v", r.Per)
		}
	}
}

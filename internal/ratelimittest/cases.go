package ratelimittest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// scripts are the steps of cases by name: see [suite.script].
//
//nolint:gochecknoglobals // a constant
var scripts = map[string]string{
	"a refusal changes nothing": `a: any 10/1h; a take 5 -> 5 left 5; 8x take 6 -> no left 5; take 5 -> 5 left 0`,
	"a check takes nothing":     `a: any 3/1h; a 5x check 3 -> 0 left 3; check 0 -> 0 left 3 full; take 2 -> 2 left 1; check 2 -> no left 1`,
	"a cost of zero only looks": `a: any 3/1h; a take 0 -> 0 left 3 full; take 3 -> 3 left 0; 4x take 0 -> 0 left 0`,
	"at most takes what there is": `
		a: any 10/1h; a most 1 -> 1 left 9; most 2 -> 2 left 7; most 4611686018427387904 -> 7 left 0; most 1 -> no`,
	"more than the capacity is never allowed": `
		a: any 5/1h; a take 1 -> 1 left 4; take 6 -> never left 4; reserve 6 within 24h -> never left 4`,
	"each decision has its time": `
		a: 5/1h; a x = take 5; sleep 0.2u; take 1; take 6; take 0; most 1; reserve 1; check 1; drain; refund x; take 1; reset`,
	"reset forgets":               `a: any 3/1h; a take 3 -> 3 left 0; reset -> 0 left 3; take 3 -> 3 left 0`,
	"a negative cost is an error": `a: 1/1s; a take -1 -> error`,
	"a closed store fails":        `a: 1/1s; close; a take 1 -> error`,

	"several limits are taken all or none": `
		short: 3/1u; long: 5/1000u burst 5; both: 3/1u and 5/1000u burst 5
		both take 3 -> 3 left 0; take 1 -> no left 0 in 1u of 3 which 0; long take 0 -> 0 left 2; sleep 1u+
		both x = take 2 -> 2 left 0 of 5 which 1; most 9 -> no which 1; refund x; short take 0 -> 0 left 3; long take 0 -> 0 left 2
		both reset; long take 0 -> 0 left 5
		ab: 3/1u and 3/1000u; ba: 3/1000u and 3/1u; key ab; ab take 3 -> 3 left 0 later 1u; key ba; ba take 3 -> 3 left 0 later 1u`,

	"a refund gives back a take": `a: any 10/1h; a x = take 4; take 5 -> 5 left 1; refund x -> 0 left 5; take 5 -> 5 left 0`,
	"a refund after its window gives nothing": `
		a: any 4/1u; a x = take 4 -> 4 left 0; sleep 2u+; take 4 -> 4 left 0; refund x -> 0 left 0
		key full; b: 4/4u burst 4; b y = take 4; sleep 4u+; refund y; take 4 -> 4 left 0; take 1 -> no`,
	"a refund reports the limit in force": `
		was: any 10/1h; is: any 6/1h; was x = take 1; take 3 -> 3 left 6; is refund x -> 0 of 6 stands; was take 0 -> 0 left 7`,
	"usage that was carried over is not refunded": `
		window: 9/1h; bucket: 5/1000h burst 5; window x = take 3; bucket take 1 -> 1 left 1; refund x -> 0 left 1 of 5
		window take 0 -> 0 left 5; bucket y = take 1; window take 0 -> 0 left 4; bucket refund y
		window take 0 -> 0 left 5; bucket take 0 -> 0 left 1`,

	"usage counts under any limit": `
		a: 100/1h; b: 10/1h; c: sliding_log 1000/1h; d: sliding_counter 60/1h; a take 4 -> 4 left 96; b take 1 -> 1 left 5
		c take 1 -> 1 left 994; a take 46 -> 46 left 48; c take 0 -> 0 left 948; b take 1 -> no left 0; d take 0 -> 0 left 8`,
	"a lower limit waits for the one before, and forgets nothing": `
		high: 100/1u; low: 10/1u; high x = take 50 -> 50 left 50; sleep 0.25u; low take 1 -> no left 0 in 0.75u
		reserve 1 within 0.5u -> no; high take 1 -> 1 left 49; sleep 1u+; low take 10 -> 10 left 0; high refund x; take 0 -> 0 left 90
		key r; low y = take 1; high take 59 -> 59 left 40; low refund y; high take 0 -> 0 left 40; low take 0 -> 0 left 0`,
	"a changed limit grants nothing and is felt at once": `
		before: one 10/10u; after: other 30/20u; bucket: 30/1u burst 30
		before take 10 -> 10 left 0; after take 20 -> 20 left 0; take 1 -> no; bucket take 15 -> no soon 0.5u`,
	"a limit under which nothing was granted leaves no trace": `
		a: 10/1000u burst 10; none: 1/43800h burst 1; a take 4 -> 4 left 6; none take 1 -> no; sleep 1u; a take 6 -> 6 left 0`,
	"a chain of limits refills nothing": `
		a: one 10/1000u; b: other 10/1000u; c: sliding_log 10/1000u; d: 10/1000u burst 10
		a most 4 -> 4; b most 3 -> 3; c most 2 -> 2; d most 4 -> 1; c most 4 -> no; b most 4 -> no; a most 4 -> no`,
	"a key limit carries over": `
		a: 10/3600u; own: 25/1u; a take 10 -> 10 left 0; own take 15 -> 15 left 0; a take 1 -> no left 0 in 1u; sleep 1u+
		a take 10 -> 10 left 0`,
	"tiers in turn admit what both admit": `
		hour: 1000/3600u; second: 10/1u; hour take 500 -> 500 left 500; second take 1 -> no soon 50u
		hour take 1000 -> no left 0 in 50u; sleep 50u+; hour take 1 -> 1 left 999; second take 9 -> 9 left 0`,
	"permits reserved ahead stay so when the limit changes": `
		a: 20/1u burst 1; b: 21/1u burst 1; c: 22/1u burst 1
		a 60x reserve 1 within 3u; b 60x reserve 1 within 3u; c 60x reserve 1 within 3u; sum 60 67`,
	"a refund of what is reserved under a lower limit forgets nothing": `
		high: 25/1u; low: 10/1u; high take 25 -> 25 left 0; low x = reserve 2 -> 2 in 1u; refund x; high take 1 -> no left 0
		key b; many: 25/60u burst 8; few: 10/60u burst 5; many take 8 -> 8 left 0; few z = reserve 2; refund z; many take 1 -> no
		key l; log: sliding_log 25/1u; less: sliding_log 10/1u; log take 25 -> 25 left 0; less l = reserve 1 -> 1 in 1u
		refund l; log reserve 1 -> 1 in 1u`,
	"joined limits go on from those of their kind": `
		a: 10/10u and sliding_log 100/3600u; b: 20/10u and sliding_log 50/3600u; long: sliding_log 50/3600u; c: sliding_log 30/3600u
		d: sliding_log 30/3600u and 40/3600u burst 40; e: 40/3600u burst 40 and 35/3600u
		a take 8 -> 8 left 2; b take 0 -> 0 left 12; take 12 -> 12 left 0; long take 0 -> 0 left 30; c take 0 -> 0 left 10
		take 1 -> 1 left 9; d take 9 -> 9 left 0; e take 0 -> 0 left 5`,

	"reservations come in order and in time": `
		a: 2/1u burst 2; a reserve 2 -> 2 in 0u; reserve 1 -> 1 in 0.5u; reserve 2 -> 2 in 1.5u
		reserve 1 within 1.5u -> no left 0 in 2u; reserve 1 -> 1 in 2u; key w; b: 3/1u; b reserve 2 -> 2 in 0u
		reserve 2 -> 2 in 1u; reserve 1 -> 1 in 1u; reserve 1 -> 1 in 2u; take 1 -> no; sleep 1u+; take 1 -> no`,
	"a reservation too far ahead is refused": `
		a: 1/1u; a reserve 1 -> 1 in 0u; reserve 1 -> 1 in 1u; reserve 1 -> 1 in 2u; reserve 1 -> 1 in 3u
		3x reserve 1 within 1000000h -> no in 4u; key b; b: 999999937/1u burst 999999937
		b 1000x reserve 999999937 within 1000000h; take 1 -> no`,
}

func keys(s *suite) {
	plan := s.planOf(ratelimit.FixedWindow(1, time.Hour))
	long := make([]byte, 10_000)
	for _, key := range []string{"", " ", "}{", "{a}", "a", "a\x00", "\x00", "\xff\xfe", "a\nb", "ключ", string(long), string(long[1:])} {
		for i := range 2 {
			r, err := s.table.Apply(context.Background(), key, plan, limits.Op{Cost: 1})
			require.NoError(s, err)
			require.Equal(s, i == 0, r.Allowed, "take %d of %.20q: %+v", i, key, r)
		}
	}
}

func samePlan(s *suite) {
	for _, same := range [][2]ratelimit.Limit{{limitOf("3/1s burst 3"), ratelimit.TokenBucket(3, time.Second, 3)}, {{}, ratelimit.PerMinute(1000)}} {
		require.Same(s, s.planOf(same[0]), s.planOf(same[1]))
	}
}

func concurrent(s *suite) {
	want := map[int64]int{}
	for i := range int64(100) {
		want[i] = 1
	}
	for _, text := range variants("any 100/100h") {
		plan := s.planOf(limitOf(text))
		var wg sync.WaitGroup
		var mu sync.Mutex
		left := map[int64]int{}
		for range 16 {
			wg.Go(func() {
				for range 20 {
					r, err := s.table.Apply(context.Background(), text, plan, limits.Op{Cost: 1})
					if err != nil {
						s.Errorf("Apply: %v", err)
					}
					if r.Allowed {
						mu.Lock()
						left[r.Remaining]++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		require.Equal(s, want, left, text)
	}
}

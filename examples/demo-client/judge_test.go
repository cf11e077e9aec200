package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAGrantThatMayBeInTwoSecondsIsWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	in, across, later := grant{0, 1, 1}, grant{1, 1, 2}, grant{0, 2, 2}
	for name, c := range map[string]struct {
		grants []grant
		want   []int64
		above  bool
	}{
		"nothing":             {nil, []int64{0, 0}, false},
		"both full":           {[]grant{across, in, later, across}, []int64{2, 2}, false},
		"first is full":       {[]grant{across, in, in, across}, []int64{2, 2}, false},
		"second is full":      {[]grant{later, across, across, later}, []int64{2, 2}, false},
		"one too many":        {[]grant{in, across, across, later, later}, []int64{2, 3}, true},
		"too many in one":     {[]grant{in, in, in}, []int64{3, 0}, true},
		"too many in another": {[]grant{later, later, later}, []int64{0, 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := seconds(c.grants, 1, 2, 2, 2)
			require.Len(t, rows, 2)
			require.Equal(t, c.want, []int64{rows[0].total, rows[1].total})
			for _, r := range rows {
				require.Equal(t, r.total, r.servers[0]+r.servers[1])
			}
			_, err := judge(rows, 2)
			if c.above {
				require.ErrorContains(t, err, "1 of 2 seconds were above the limit of 2, by up to 1")
			} else if err != nil {
				require.ErrorContains(t, err, "no second reached the limit")
			}
		})
	}
}

// TestTheVerdictIsExact: a second is above the limit just when some seconds in a row have more grants
// that were in them for certain than they may have together.
func TestTheVerdictIsExact(t *testing.T) {
	t.Parallel()
	const limit, last = 3, 5
	rng := rand.New(rand.NewPCG(1, 2))
	verdicts := map[bool]int{}
	for range 20_000 {
		grants := make([]grant, rng.IntN(limit*(last+1)+2))
		for i := range grants {
			first := rng.Int64N(last + 1)
			grants[i] = grant{0, first, min(last, first+rng.Int64N(3))}
		}
		impossible := false
		for from := range int64(last + 1) {
			for to := from; to <= last; to++ {
				var inside int64
				for _, g := range grants {
					if from <= g.first && g.last <= to {
						inside++
					}
				}
				impossible = impossible || inside > limit*(to-from+1)
			}
		}
		var above bool
		var total int64
		for _, r := range seconds(grants, 0, last, 1, limit) {
			above = above || r.total > limit
			total += r.total
		}
		require.Equal(t, impossible, above, "%v", grants)
		require.EqualValues(t, len(grants), total)
		verdicts[above]++
	}
	require.Greater(t, verdicts[true], 1000)
	require.Greater(t, verdicts[false], 1000)
}

// TestTheTimeOfTheLimiter: the clock of the Redis is an hour ahead, and its answer took 10ms.
func TestTheTimeOfTheLimiter(t *testing.T) {
	t.Parallel()
	here := time.Now()
	ahead := here.Add(time.Hour).Round(0)
	c := clock{limiter: ahead, before: here, after: here.Add(10 * time.Millisecond)}
	later := here.Add(time.Second)
	require.Equal(t, ahead.Add(990*time.Millisecond), c.earliest(later))
	require.Equal(t, ahead.Add(time.Second), c.latest(later))

	l := newLoad(c, []string{"http://127.0.0.1:1"}, 2*time.Second)
	require.True(t, l.begin.After(here))
	require.Zero(t, c.earliest(l.begin).Nanosecond(), "it begins with a second of the limiter")
	require.Zero(t, c.latest(l.end).Nanosecond(), "and ends with one")
	l.ended = l.end
	require.Equal(t, l.from()+1, l.to(), "these are two")
	require.WithinDuration(t, ahead, time.Unix(l.from(), 0), time.Minute)
}

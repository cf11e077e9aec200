package batch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

func TestOutage(t *testing.T) { outage(t, 1000, 100) }

// outage shows that an hour in which the vendor is down, or answers with nothing but limits, costs no record: each arrives once.
// Without a gate and times, an hour has a call of each record every 15 seconds, so there are only some.
func outage(t *testing.T, many, some int) {
	t.Helper()
	for name, row := range map[string]struct {
		records int
		err     error
		gate    func() *gate.Gate
	}{
		"down":                {records: many, err: errors.New("down")},
		"limited":             {records: some, err: limitedError(0)},
		"limited, with times": {records: many, err: limitedError(7 * time.Minute)},
		"limited, with a gate": {
			records: many, err: limitedError(0), gate: func() *gate.Gate { return core.Must(gate.New(gate.Config{Limits: []gate.Limit{{}}})) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var mu sync.Mutex
				seen := make(map[string]int, row.records)
				cfg := config{Name: "vendor", Option: func(r record) string { return r.Option }}
				cfg.Send = func(_ context.Context, _ string, records []record) ([]result, error) {
					time.Sleep(50 * time.Millisecond)
					if time.Since(begun) < time.Hour {
						return nil, row.err
					}
					mu.Lock()
					defer mu.Unlock()
					for _, r := range records {
						seen[r.Content]++
					}
					return all(records), nil
				}
				if row.gate != nil {
					cfg.Gate = row.gate()
				}
				b, err := newBatcher(cfg)
				require.NoError(t, err)
				run(t, b)
				for i := range row.records {
					add(t, b, strconv.Itoa(i%7), strconv.Itoa(i))
				}
				time.Sleep(4 * time.Hour)
				s := b.Stats()
				require.EqualValues(t, row.records, s.Sent)
				require.Zero(t, s.Failed)
				require.Len(t, seen, row.records)
				for _, n := range seen {
					require.Equal(t, 1, n)
				}
				if name != "down" {
					require.Positive(t, s.Limited)
				}
			})
		})
	}
}

// Random records, answers and controls of two processes: each record ends exactly once, however often it is sent.
func TestRandom(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.Itoa(int(seed)), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
				var mu sync.Mutex
				intN := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return random.IntN(n)
				}
				done := map[string]int{}
				keys := map[string]string{} // the contents of calls
				v := &vendor{}
				v.answer = func(_ context.Context, n int, records []record) ([]result, error) {
					v.mu.Lock()
					c := v.calls[n-1]
					v.mu.Unlock()
					text := c.option + ":"
					for _, content := range c.contents {
						text += " " + content
					}
					mu.Lock()
					if was, ok := keys[c.key]; ok && was != text {
						t.Errorf("the key of %q was that of %q", text, was)
					}
					keys[c.key] = text
					mu.Unlock()
					time.Sleep(time.Duration(intN(3000)) * time.Millisecond)
					switch intN(8) {
					case 0:
						return nil, errNo
					case 1:
						return nil, limitedError(intN(int(time.Minute)))
					case 2:
						return nil, core.Permanent(errNo)
					}
					results := all(records)
					for i := range results {
						if results[i].Err = [...]error{nil, nil, nil, errNo, core.Permanent(errNo)}[intN(5)]; results[i].Err == nil {
							mu.Lock()
							done[records[i].Content]++
							mu.Unlock()
						}
					}
					return results, nil
				}
				engine := jobs.Memory()
				change := func(c *config) { c.Engine, c.MaxRecords, c.MaxAttempts, c.FlushSize = engine, 7, 4, 10 }
				one, two := v.start(t, change), v.start(t, change)
				deleted := 0
				for i := range 600 {
					add(t, []*batcher{one, two}[i%2], strconv.Itoa(intN(5)), strconv.Itoa(i))
					time.Sleep(time.Duration(intN(300)) * time.Millisecond)
					option := strconv.Itoa(intN(5))
					switch intN(60) {
					case 0:
						require.NoError(t, one.Flush(t.Context()))
					case 1:
						require.NoError(t, two.Pause(t.Context(), option))
					case 2, 3:
						require.NoError(t, one.Resume(t.Context(), option))
					case 4:
						n, err := two.Delete(t.Context(), option)
						require.NoError(t, err)
						deleted += n
					case 5:
						_, err := two.Retry(t.Context(), option)
						require.NoError(t, err)
					}
				}
				for i := range 5 {
					require.NoError(t, one.Resume(t.Context(), strconv.Itoa(i)))
				}
				time.Sleep(time.Hour)
				left := 0
				groups, err := one.Groups(t.Context())
				require.NoError(t, err)
				for _, g := range groups {
					require.Zero(t, g.Pending+g.InFlight)
					left += g.Failed
				}
				for content, n := range done {
					require.Equal(t, 1, n, content)
				}
				require.Equal(t, 600, len(done)+left+deleted)
				require.EqualValues(t, len(done), one.Stats().Sent+two.Stats().Sent)
			})
		})
	}
}

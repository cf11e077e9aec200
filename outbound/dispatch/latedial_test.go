package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/dispatch"
)

func TestADialFromBeforeACooldownThatHasEndedHoldsNoOtherCall(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{"vendor": limited(time.Minute), "account": limitedAccount(time.Minute)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := core.Must(dispatch.New(dispatch.Config[string, string]{
					Classify: classify, Attempts: 2, Account: func(string) string { return "shared" },
					Dial: func(_ context.Context, key string) (string, error) {
						if key == "slow" {
							time.Sleep(10 * time.Second)
							return "", refused
						}
						return key, nil
					},
				}))
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan none)
				go func() {
					defer close(ended)
					_, _ = dispatch.Do(ctx, d, "slow", func(context.Context, string) (int, error) { return 0, nil })
				}()
				synctest.Wait()
				n := 0
				_, err := dispatch.Do(t.Context(), d, "quick", func(context.Context, string) (int, error) {
					if n++; n > 1 {
						return 0, nil
					}
					if name == "vendor" {
						return 0, limited(time.Second)
					}
					return 0, limitedAccount(time.Second)
				})
				require.NoError(t, err)
				time.Sleep(10 * time.Second)
				require.Equal(t, uint64(2), d.Stats().Limited)
				require.Empty(t, d.Snapshot().Held)
				require.Equal(t, 1, d.Stats().Active, "the call of the Dial pauses")
				cancel()
				<-ended
			})
		})
	}
}

func TestADialThatIsRefusedDuringACooldownExtendsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		d := core.Must(dispatch.New(dispatch.Config[string, string]{
			Classify: classify, Attempts: 1,
			Dial: func(_ context.Context, key string) (string, error) {
				if key == "slow" {
					time.Sleep(10 * time.Second)
					return "", limited(time.Minute)
				}
				return key, nil
			},
		}))
		ended := make(chan none)
		go func() {
			defer close(ended)
			_, _ = dispatch.Do(t.Context(), d, "slow", func(context.Context, string) (int, error) { return 0, nil })
		}()
		synctest.Wait()
		_, err := dispatch.Do(t.Context(), d, "quick", func(context.Context, string) (int, error) { return 0, limited(30 * time.Second) })
		require.ErrorIs(t, err, dispatch.ErrRateLimited)
		<-ended
		require.Equal(t, start.Add(70*time.Second+pad), d.Snapshot().Held[0].Until)
	})
}

// The Dial waited for the turn of its account, and began while the vendor was held.
func TestADialFromWithinACooldownHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(dispatch.New(dispatch.Config[string, string]{
			Classify: classify, Attempts: 2, Pad: -1,
			Account: func(key string) string { return map[string]string{"slow": "a", "first": "a"}[key] },
			Dial: func(_ context.Context, key string) (string, error) {
				if key == "slow" {
					time.Sleep(10 * time.Second)
					return "", limited(time.Minute)
				}
				return key, nil
			},
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		do := func(key string, refusals ...error) {
			wg.Go(func() {
				_, _ = dispatch.Do(ctx, d, key, func(ctx context.Context, _ string) (int, error) {
					if len(refusals) > 0 {
						err := refusals[0]
						refusals = refusals[1:]
						return 0, err
					}
					return 0, sleep(ctx, 500*time.Millisecond)
				})
			})
			synctest.Wait()
		}
		do("first", limitedAccount(time.Second))
		time.Sleep(time.Second) // it is the probe of its account
		synctest.Wait()
		do("slow")
		time.Sleep(400 * time.Millisecond)
		do("other", limited(time.Second))
		time.Sleep(10*time.Second + 100*time.Millisecond)
		synctest.Wait()
		require.Equal(t, uint64(3), d.Stats().Limited)
		require.Len(t, d.Snapshot().Held, 1)
		cancel()
		wg.Wait()
	})
}

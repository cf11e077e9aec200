package timeout_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

func TestSetConfigInACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := core.Must(timeout.New(timeout.Config{Limit: time.Minute}))
		slow := func() {
			_, err := timeout.Do(t.Context(), limit, lasting(time.Hour, returnsErr))
			require.ErrorIs(t, err, timeout.ErrTimeout)
		}
		ended := make(chan struct{})
		start := time.Now()
		go func() { defer close(ended); slow() }()
		synctest.Wait()
		require.NoError(t, limit.SetConfig(timeout.Config{Limit: time.Second}))
		slow()
		require.Equal(t, time.Second, time.Since(start))
		<-ended
		require.Equal(t, time.Minute, time.Since(start), "what runs has the limit that it began with")
	})
}

func TestSetConfigUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	limit := core.Must(timeout.New(timeout.Config{Limit: time.Hour}))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				if err := limit.SetConfig(timeout.Config{Limit: time.Duration(i+1) * time.Hour}); err != nil {
					t.Error(err)
				}
				if n, err := timeout.Do(t.Context(), limit, func(context.Context) (int, error) { return i, nil }); n != i || err != nil {
					t.Error(n, err)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 2000, limit.Stats().Succeeded)
}

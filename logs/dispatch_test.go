package logs_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/dispatch"
)

var errSlowDown = errors.New("slow down")

// dispatched makes calls with one connection, which a call of "other" has for a second while one of
// "k" waits for it. The vendor refuses the first attempt of "k" for 15 seconds, then answers, then
// refuses all.
func dispatched(t *testing.T, registry *core.Registry) {
	t.Helper()
	d := core.Must(dispatch.New(dispatch.Config[string, int]{
		Name: "ads", Registry: registry, Capacity: 1, Attempts: 2, Pad: -1,
		Account: func(key string) string { return key },
		Classify: func(err error) (dispatch.Limited, bool) {
			return dispatch.Limited{Scope: dispatch.ScopeAccount}, errors.Is(err, errSlowDown)
		},
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = dispatch.Do(t.Context(), d, "other", func(context.Context, int) (int, error) { time.Sleep(time.Second); return 0, nil })
	}()
	synctest.Wait()
	attempt := 0
	_, err := dispatch.Do(t.Context(), d, "k", func(context.Context, int) (int, error) {
		if attempt++; attempt == 1 {
			return 0, errSlowDown
		}
		return 0, nil
	})
	require.NoError(t, err)
	<-done
	_, err = dispatch.Do(t.Context(), d, "k", func(context.Context, int) (int, error) { return 0, errSlowDown })
	require.ErrorIs(t, err, dispatch.ErrRateLimited)
	require.NoError(t, d.Close(t.Context()))
}

func TestACooldownOfManyAttemptsIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		b, _ := newBook(t, registry, slog.LevelInfo, logs.Config{})
		d := core.Must(dispatch.New(dispatch.Config[string, int]{
			Name: "ads", Registry: registry, Attempts: 1,
			Classify: func(err error) (dispatch.Limited, bool) {
				return dispatch.Limited{RetryAfter: 15 * time.Second}, errors.Is(err, errSlowDown)
			},
		}))
		refuse := func(took time.Duration) {
			_, err := dispatch.Do(t.Context(), d, "k", func(context.Context, int) (int, error) { time.Sleep(took); return 0, errSlowDown })
			require.ErrorIs(t, err, dispatch.ErrRateLimited)
		}
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { refuse(time.Duration(i+1) * 100 * time.Millisecond) })
		}
		wg.Go(func() { refuse(2 * time.Second) })
		wg.Wait()
		held := 0
		for _, line := range b.read() {
			if strings.Contains(line, "calls are held back") {
				held++
			}
		}
		require.Equal(t, 2, held, "of 0.1s, and of 2s")
		refuse(0)
		require.Contains(t, b.read()[0], "calls are held back", "the next one")
		require.NoError(t, d.Close(t.Context()))
	})
}

func TestTheStepsOfADispatcher(t *testing.T) {
	t.Parallel()
	at := func(second int) string { // since the start of a bubble
		return time.Date(2000, 1, 1, 0, 0, second, 0, time.UTC).Local().Format("2006-01-02T15:04:05.000Z07:00")
	}
	for _, c := range []struct {
		name string
		cfg  logs.Config
		want []string
	}{
		{"changes of the whole", logs.Config{}, []string{
			`level=INFO msg="calls are held back" kind=dispatch name=ads scope=account until=` + at(16),
			`level=INFO msg="calls are made again" kind=dispatch name=ads scope=account`,
			`level=INFO msg="calls are held back" kind=dispatch name=ads scope=account until=` + at(31),
			`level=INFO msg="calls are held back" kind=dispatch name=ads scope=account until=` + at(46),
			`level=INFO msg="call gave up, as the vendor refused it too often" kind=dispatch name=ads attempts=2 err="slow down"`,
		}},
		{"calls and keys", logs.Config{Calls: true, Keys: true}, []string{
			`level=DEBUG msg="instance added" kind=dispatch name=ads`,
			`level=DEBUG msg="call waits for a connection" kind=dispatch name=ads key=k`,
			`level=DEBUG msg="connection available" kind=dispatch name=ads key=k waited=1s`,
			`level=INFO msg="calls are held back" kind=dispatch name=ads key=k scope=account until=` + at(16),
			`level=DEBUG msg="connection returned" kind=dispatch name=ads key=k`,
			`level=INFO msg="calls are made again" kind=dispatch name=ads key=k scope=account`,
			`level=DEBUG msg="connection returned" kind=dispatch name=ads key=k`,
			`level=INFO msg="calls are held back" kind=dispatch name=ads key=k scope=account until=` + at(31),
			`level=DEBUG msg="connection returned" kind=dispatch name=ads key=k`,
			`level=INFO msg="calls are held back" kind=dispatch name=ads key=k scope=account until=` + at(46),
			`level=INFO msg="call gave up, as the vendor refused it too often" kind=dispatch name=ads key=k attempts=2 err="slow down"`,
			`level=DEBUG msg="connection returned" kind=dispatch name=ads key=k`,
			`level=DEBUG msg="instance removed" kind=dispatch name=ads`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := &core.Registry{}
				level := slog.LevelInfo
				if c.cfg.Calls {
					level = slog.LevelDebug
				}
				b, _ := newBook(t, registry, level, c.cfg)
				dispatched(t, registry)
				got := b.read()
				const handed = `level=DEBUG msg="connection returned" kind=dispatch name=ads key=other`
				if i := slices.Index(got, handed); c.cfg.Calls {
					require.Positive(t, i)
					got = slices.Delete(got, i, i+1) // the call that it is for goes on at the same time
				}
				require.Equal(t, c.want, got)
			})
		})
	}
}

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
	"github.com/gresil/gresil/core/cooldown"
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

func TestDispatcherHoldOnce(t *testing.T) {
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

func TestDispatcherEvents(t *testing.T) {
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

// A broken store fails and recovers at each Sync.
type broken struct{ listener cooldown.Listener }

func (*broken) OpenCooldown(_ string, l cooldown.Listener) (cooldown.Table, error) {
	return &broken{l}, nil
}

func (b *broken) Sync(context.Context, string) {
	b.listener.Failed(errSlowDown)
	b.listener.Recovered()
}
func (*broken) Hold(string, time.Duration)    {}
func (*broken) Release(string, time.Duration) {}
func (*broken) Close()                        {}

// TestDispatcherStoreFailure: as that of a cooldown is, and it is counted.
func TestDispatcherStoreFailure(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	b, _ := newBook(t, registry, slog.LevelInfo, logs.Config{})
	d := core.Must(dispatch.New(dispatch.Config[string, int]{Name: "ads", Registry: registry, Store: &broken{}}))
	_, err := dispatch.Do(t.Context(), d, "k", func(context.Context, int) (int, error) { return 0, nil })
	require.NoError(t, err)
	require.NoError(t, d.Close(t.Context()))
	failures := d.Stats().StoreFailures
	require.Positive(t, failures)
	lines := b.read()
	require.Len(t, lines, 2*int(failures)) //nolint:gosec // a few
	require.Equal(t, []string{
		`level=WARN msg="cooldown store failed" kind=dispatch name=ads err="slow down" count=1`,
		`level=INFO msg="cooldown store recovered" kind=dispatch name=ads`,
	}, lines[:2])
}

package logs_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/dispatch"
)

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

// TestAFailureOfTheStoreOfADispatcherIsAWarning: as that of a cooldown is, and it is counted.
func TestAFailureOfTheStoreOfADispatcherIsAWarning(t *testing.T) {
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

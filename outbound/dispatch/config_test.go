package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	internalregistry "github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/dispatch"
)

func TestEveryFieldOfAConfigIsChecked(t *testing.T) {
	t.Parallel()
	require.NoError(t, config{}.Validate())
	require.NoError(t, config{IdleTime: -1, Pad: -1, MaxQueue: -1}.Validate())
	_, err := dispatch.New(config{Capacity: -1, DialTimeout: -1, Attempts: -1, Cooldown: -1, MaxCooldown: -1})
	require.ErrorIs(t, err, core.ErrConfig)
	require.Equal(t, []string{
		"dispatch.Config.Capacity = -1: must be > 0 and <= 1048576 (0 means 8)",
		"dispatch.Config.DialTimeout = -1ns: must be > 0 (0 means 30s)",
		"dispatch.Config.Attempts = -1: must be > 0 (0 means 5)",
		"dispatch.Config.Cooldown = -1ns: must be > 0 (0 means 15s)",
		"dispatch.Config.MaxCooldown = -1ns: must be > 0 and <= 8760h0m0s (0 means 24h0m0s)",
	}, strings.Split(err.Error(), "\n"))
	require.Error(t, config{Capacity: 1<<20 + 1}.Validate())
	require.Error(t, config{MaxCooldown: 366 * 24 * time.Hour}.Validate())
}

func TestSetConfigKeepsNameRegistryAndDial(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	d := newDispatcher(t, config{Name: "ads", Registry: registry})
	_, err := dispatch.New(config{Name: "ads", Registry: registry})
	require.Error(t, err)
	require.NoError(t, (*internalregistry.Registry)(registry).Set("dispatch", "ads", config{Attempts: 2}, false))
	require.Equal(t, 2, d.Config().Attempts)
	require.Equal(t, "ads", d.Config().Name)
	require.ErrorIs(t, d.SetConfig(config{Attempts: -1}), core.ErrConfig)
	require.ErrorIs(t, d.SetConfig(config{Dial: func(context.Context, string) (none, error) { return none{}, nil }}), core.ErrConfig)
	require.Equal(t, 2, d.Config().Attempts)
}

func TestHooksReportACooldown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var log []string
		record := func(event string) func(context.Context, dispatch.Info) {
			return func(_ context.Context, info dispatch.Info) {
				log = append(log, event+" "+info.Name+" "+info.Scope.String()+" "+info.Account+" "+info.Until.Sub(start).String())
			}
		}
		d := newDispatcher(t, config{Name: "ads", Account: func(key string) string { return key }})
		cancel := d.Observe(dispatch.Hooks{Held: record("held"), Resumed: record("resumed")})
		calls(t, d, newScript(answer{0, limited(time.Second)}, answer{0, &limitError{time.Minute, dispatch.ScopeAccount}}), "a")
		require.Equal(t, []string{"held ads vendor  1.05s", "held ads account a 1m1.1s", "resumed ads vendor  1.05s", "resumed ads account a 1m1.1s"}, log)
		cancel()
	})
}

// Not parallel: it counts allocations.
func TestACallWithoutContentionAllocatesLittle(t *testing.T) {
	dial := func(context.Context, string) (none, error) { return none{}, nil }
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1<<30, time.Second, 1<<30)}))
	for name, c := range map[string]struct {
		cfg  config
		call func(context.Context, none) (int, error)
		want float64
	}{
		"places":      {config{}, unused, 1},
		"connections": {config{Dial: dial, Healthy: func(string, none) bool { return true }}, unused, 1},
		"a limiter":   {config{Limiter: limiter}, unused, 2},
		"an account":  {config{Account: ownAccount}, unused, 1},
		"a context that is used": {config{}, func(ctx context.Context, _ none) (int, error) {
			_ = ctx.Done()
			return 0, nil
		}, 4},
	} {
		ctx, d := t.Context(), newDispatcher(t, c.cfg)
		allocs := testing.AllocsPerRun(1000, func() {
			if _, err := dispatch.Do(ctx, d, "key", c.call); err != nil {
				t.Fatal(err)
			}
		})
		require.LessOrEqual(t, allocs, c.want, name)
		t.Log(name, allocs)
	}
}

func unused(context.Context, none) (int, error) { return 0, nil }

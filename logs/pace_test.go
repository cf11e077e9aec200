package logs_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/pace"
)

func TestPacerEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   logs.Config
		level slog.Level
		want  []string
	}{
		"changes of the whole": {logs.Config{}, slog.LevelInfo, []string{
			`level=INFO msg="rates were read from the vendor" kind=pace name=sms rates="[{Calls:1 Per:1s Burst:0}]"`,
			`level=INFO msg="rates could not be read from the vendor" kind=pace name=sms err="slow down"`,
			`level=INFO msg="config replaced" kind=pace name=sms`,
		}},
		"calls and keys": {logs.Config{Calls: true, Keys: true}, slog.LevelDebug, []string{
			`level=DEBUG msg="instance added" kind=pace name=sms`,
			`level=INFO msg="rates were read from the vendor" kind=pace name=sms rates="[{Calls:1 Per:1s Burst:0}]"`,
			`level=INFO msg="rates could not be read from the vendor" kind=pace name=sms err="slow down"`,
			`level=DEBUG msg="call waited for its permit" kind=pace name=sms key=k waited=1.049999999s`,
			`level=INFO msg="config replaced" kind=pace name=sms`,
			`level=DEBUG msg="call rejected" kind=pace name=sms key=k waited=0s err="pace: sms: limited, the next permit is in 1.05s or later"`,
			`level=DEBUG msg="instance removed" kind=pace name=sms`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := &core.Registry{}
				b, _ := newBook(t, registry, c.level, c.cfg)
				read := false
				p := core.Must(pace.New(pace.Config{
					Name: "sms", Registry: registry, Rates: []pace.Rate{{Calls: 1, Per: time.Second}}, RefreshEvery: time.Nanosecond,
					Refresh: func(context.Context) ([]pace.Rate, error) {
						if read {
							return nil, errSlowDown
						}
						read = true
						return []pace.Rate{{Calls: 1, Per: time.Second}}, nil
					},
				}))
				_ = core.Must(p.Wait(t.Context(), "k", 1))
				time.Sleep(time.Nanosecond)
				_ = core.Must(p.Wait(t.Context(), "k", 1))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				cfg := p.Config()
				cfg.Refresh = nil
				require.NoError(t, p.SetConfig(cfg))
				_, err := p.Wait(ctx, "k", 1)
				require.ErrorIs(t, err, pace.ErrLimited)
				require.NoError(t, p.Close())
				require.Equal(t, c.want, b.read())
			})
		})
	}
}

package dash_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/internal/registry"
)

// Every instance is shown with its figures that are not 0, and the fields of its Config that are set.
func TestFiguresAndConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &core.Registry{}
		limiter, err := ratelimit.New(ratelimit.Config{
			Name: "api", Registry: all, Limit: ratelimit.PerMinute(100), MaxWait: time.Minute,
			Limits: map[string]ratelimit.Limit{"import": ratelimit.PerHour(1), "export": ratelimit.PerSecond(5)},
		})
		require.NoError(t, err)
		_, err = limiter.Take(t.Context(), "secret", 1)
		require.NoError(t, err)
		_, err = retry.New(retry.Config{Registry: all, RetryIf: func(error) bool { return true }, Backoff: backoff.Constant{}})
		require.NoError(t, err)
		h := handler(t, all, dash.Config{Keys: true})
		row := state(t, h, "?kind=ratelimit").Tables[0].Rows[0]
		require.Equal(t, "api", row.Name)
		require.Equal(t, []string{"Limit = 100/1m", "Limits[export] = 5/1s", "Limits[import] = 1/1h", "MaxWait = 1m0s"}, row.Config)
		figures, _ := row.Figures.(map[string]any)
		require.InDelta(t, 1, figures[`requests_total{result="allowed"}`], 0, figures)
		require.Equal(t, []string{"Backoff = (set)", "RetryIf = (set)"}, state(t, h, "?kind=retry").Tables[0].Rows[0].Config)
		page := get(h, "/").Body.String()
		require.Contains(t, page, "<li>Limits[export] = 5/1s</li>")
		require.Contains(t, page, "<li>requests_total{result=&#34;allowed&#34;} 1</li>")
	})
}

// A settled thing has a field of each kind.
type settled struct {
	URL      string
	Sizes    []int
	Nested   struct{ On bool }
	Zero     int
	hidden   int
	Registry *core.Registry
	Any      any
}

func TestStrangeInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &core.Registry{}
		cfg := settled{URL: "redis://u:secret@host", Sizes: []int{0, 2}, hidden: 1, Registry: all, Any: "secret"}
		cfg.Nested.On = true
		put(t, all, "a", "settled", registry.Source{Config: func() any { return cfg }})
		put(t, all, "b", "panics", registry.Source{Figures: func() registry.Figures { panic("no figures") }})
		put(t, all, "c", "numbers", registry.Source{Figures: func() registry.Figures {
			return registry.Figures{{Name: "mean", N: math.NaN()}, {Name: "waits", N: 1, Dist: &registry.Distribution{}}, {Name: "n", N: 1 << 40}, {Name: "ratio", N: 1.0 / 3}}
		}})
		s := state(t, handler(t, all, dash.Config{}), "")
		require.Equal(t, []string{"Any = (set)", "Nested.On = true", "Sizes[1] = 2", "URL = redis://host"}, s.Tables[0].Rows[0].Config)
		require.Equal(t, "panic: no figures", s.Tables[1].Rows[0].Figures)
		require.Equal(t, map[string]any{"n": float64(1 << 40), "ratio": 1.0 / 3}, s.Tables[2].Rows[0].Figures)
	})
}

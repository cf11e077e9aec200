package dash_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/dispatch"
	"github.com/gresil/gresil/outbound/pace"
)

// ads returns a dispatcher that the vendor has refused for a minute, and one account for an hour.
func ads(t *testing.T, registry *core.Registry) *dispatch.Dispatcher[string, int] {
	t.Helper()
	wait := map[string]dispatch.Limited{
		"vendor":       {RetryAfter: time.Minute},
		"secret/<b>42": {RetryAfter: time.Hour, Scope: dispatch.ScopeAccount},
	}
	vendor, err := dispatch.New(dispatch.Config[string, int]{
		Name: "ads", Registry: registry, Attempts: 1, Pad: -1, Capacity: 3,
		Account:  func(key string) string { return key },
		Classify: func(err error) (dispatch.Limited, bool) { l, ok := wait[err.Error()]; return l, ok },
	})
	require.NoError(t, err)
	for _, key := range []string{"secret/<b>42", "vendor"} {
		_, err = dispatch.Do(t.Context(), vendor, key, func(context.Context, int) (int, error) { return 0, errors.New(key) })
		require.ErrorIs(t, err, dispatch.ErrRateLimited)
	}
	return vendor
}

func TestAVendorIsShownWithItsCooldowns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		vendor := ads(t, registry)
		time.Sleep(15 * time.Second)
		h := handler(t, registry, dash.Config{})
		s := state(t, h, "")
		require.Len(t, s.Rows, 1)
		row := s.Rows[0]
		require.Equal(t, "dispatch", row["kind"])
		require.Equal(t, "ads", row["name"])
		require.Equal(t, "cooling_down", row["state"])
		require.Equal(t, time.Now().Add(45*time.Second).UTC().Format(time.RFC3339Nano), row["until"])
		require.InDelta(t, 2, row["gave_up"], 0)
		require.InDelta(t, 2, row["limited"], 0)
		require.InDelta(t, 0, row["in_flight"], 0)
		require.Equal(t, 1, s.Totals["dispatch"].Attention)
		held, _ := row["held"].([]any)
		require.Len(t, held, 2)
		require.Contains(t, held, map[string]any{"scope": "account", "account": nil, "until": time.Now().Add(time.Hour - 15*time.Second).UTC().Format(time.RFC3339Nano)})

		page := get(h, "/").Body.String()
		require.Contains(t, page, `<td class="bad">cooling down</td>`)
		require.Contains(t, page, ">in 45 s</td>")
		require.Contains(t, page, "in 59 min 45 s</li>")
		require.Contains(t, page, "1 need attention")

		time.Sleep(time.Hour)
		row = state(t, h, "").Rows[0]
		require.Equal(t, "running", row["state"])
		require.Nil(t, row["until"])
		require.Equal(t, []any{}, row["held"])
		require.NoError(t, vendor.Close(t.Context()))
		require.Empty(t, state(t, h, "").Rows)
		require.Contains(t, get(h, "/").Body.String(), "There is no instance.")
	})
}

func TestKeysAreShownOnlyOnRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		ads(t, registry)
		pacer, err := pace.New(pace.Config{Name: "sms", Registry: registry, Rates: []pace.Rate{{Calls: 1, Per: time.Minute}}})
		require.NoError(t, err)
		for range 2 {
			_, err = pacer.Reserve(t.Context(), "secret/<b>42", 1)
			require.NoError(t, err)
		}
		for _, keys := range []bool{false, true} {
			h := handler(t, registry, dash.Config{Keys: keys})
			for path, want := range map[string]string{"/": "secret/&lt;b&gt;42", "/api/state": `secret/\u003cb\u003e42`} {
				body := get(h, path).Body.String()
				require.Equal(t, keys, strings.Contains(body, want), "%v %s", keys, path)
				require.Equal(t, keys, strings.Contains(body, "secret"), "%v %s", keys, path)
			}
		}
	})
}

func TestAPacerIsShownWithItsRatesAndSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		pacer, err := pace.New(pace.Config{Name: "sms", Registry: registry, Rates: []pace.Rate{{Calls: 60, Per: time.Hour}, {Calls: 2, Per: time.Minute}}, Slack: time.Millisecond})
		require.NoError(t, err)
		for range 3 {
			_, err = pacer.Reserve(t.Context(), "a", 1)
			require.NoError(t, err)
		}
		h := handler(t, registry, dash.Config{Keys: true})
		row := state(t, h, "?kind=pace").Rows[0]
		require.Equal(t, "rolling", row["mode"])
		require.Contains(t, row["rates"], map[string]any{"calls": 60.0, "per_s": 3600.0, "burst": 0.0})
		require.InDelta(t, 120, row["ahead_s"], 0.1)
		require.InDelta(t, 3, row["permits"], 0)
		require.InDelta(t, 1, row["keys_total"], 0)
		page := get(h, "/?kind=pace").Body.String()
		require.Contains(t, page, "60 per 1h, 2 per 1m")
		require.Contains(t, page, ">2 min 0 s</td>")
		require.Contains(t, page, "a: 0 waiting, 0 reserved, 2 min 0 s ahead")
	})
}

// A vendorLike is shown as a dispatcher.
type vendorLike struct{ snapshot func() dispatch.Snapshot }

func (v *vendorLike) Snapshot() dispatch.Snapshot { return v.snapshot() }

// put adds an instance, which can have figures.
func put(tb testing.TB, to *core.Registry, kind, name string, instance any) {
	tb.Helper()
	e := registry.Entry{Kind: kind, Name: name, Instance: instance}
	if r, ok := instance.(interface{ Figures() registry.Figures }); ok {
		e.Source.Figures = r.Figures
	}
	_, err := (*registry.Registry)(to).Add(e)
	require.NoError(tb, err)
}

func add(t *testing.T, registry *core.Registry, name string, snapshot func() dispatch.Snapshot) {
	t.Helper()
	put(t, registry, "vendor", name, &vendorLike{snapshot})
}

func TestAnInstanceThatFailsDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry, release := &core.Registry{}, make(chan struct{})
		add(t, registry, "well", func() (s dispatch.Snapshot) { return s })
		add(t, registry, "panics", func() dispatch.Snapshot { panic(`Get "http://user:pass@host/x?token=1#a": lost`) })
		add(t, registry, "quits", func() dispatch.Snapshot { runtime.Goexit(); return dispatch.Snapshot{} })
		add(t, registry, "riddle", func() dispatch.Snapshot { panic(io.EOF) })
		var calls atomic.Int64
		add(t, registry, "stuck", func() (s dispatch.Snapshot) { calls.Add(1); <-release; return s })
		h := handler(t, registry, dash.Config{Timeout: 3 * time.Second})
		for range 5 { // which share one reading
			began := time.Now()
			s := state(t, h, "")
			require.Equal(t, 3*time.Second, time.Since(began))
			require.Len(t, s.Rows, 1)
			require.Equal(t, "well", s.Rows[0]["name"])
			require.Len(t, s.Errors, 4)
			require.Equal(t, "panics", s.Errors[0].Name)
			require.Equal(t, `panic: Get "http://host/x?…": lost`, s.Errors[0].Error)
			require.Equal(t, "the reading did not return", s.Errors[1].Error)
			require.Equal(t, "panic: EOF", s.Errors[2].Error)
			require.Equal(t, "stuck", s.Errors[3].Name)
			require.Equal(t, "no answer within 3s", s.Errors[3].Error)
		}
		require.Equal(t, int64(1), calls.Load())
		require.Contains(t, get(h, "/").Body.String(), "<strong>stuck</strong> could not be read: no answer within 3s")
		close(release)
		synctest.Wait()
		require.Len(t, state(t, h, "").Rows, 2)
	})
}

func TestARequestThatEndsDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry, release := &core.Registry{}, make(chan struct{})
		defer close(release)
		add(t, registry, "stuck", func() (s dispatch.Snapshot) { <-release; return s })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		require.NoError(t, err)
		handler(t, registry, dash.Config{}).ServeHTTP(discard{}, r)
		require.Equal(t, time.Second, time.Since(began))
	})
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

func TestNumbersThatAFloatCannotHoldAreTexts(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	add(t, registry, "a", func() dispatch.Snapshot {
		return dispatch.Snapshot{Stats: dispatch.Stats{Attempts: 1<<53 - 1, Succeeded: 1 << 53, Failed: math.MaxUint64}}
	})
	h := handler(t, registry, dash.Config{})
	var s struct {
		Rows []map[string]json.RawMessage `json:"rows"`
	}
	require.NoError(t, json.Unmarshal(get(h, "/api/state").Body.Bytes(), &s))
	require.Equal(t, "9007199254740991", string(s.Rows[0]["attempts"]))
	require.Equal(t, `"9007199254740992"`, string(s.Rows[0]["succeeded"]))
	require.Equal(t, `"18446744073709551615"`, string(s.Rows[0]["failed"]))
	require.Contains(t, get(h, "/").Body.String(), "18446744073709551615")
}

func TestFiguresOfMechanisms(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	put(t, registry, "mine", "a", reporter{})
	core.Must(retry.New(retry.Config{Registry: registry}))
	h := handler(t, registry, dash.Config{})
	s := state(t, h, "")
	require.Len(t, s.Rows, 2)
	require.Equal(t, []any{map[string]any{"name": "x_total", "labels": []any{"result", `<"`}, "n": 2.5}}, s.Rows[0]["figures"])
	require.Equal(t, map[string]any{"kind": "retry", "name": "default", "figures": []any{}}, s.Rows[1], "without zeros")
	require.Contains(t, get(h, "/").Body.String(), "x_total{result=&#34;&lt;\\&#34;&#34;} 2.5")
}

type reporter struct{ _ int }

func (reporter) Figures() registry.Figures {
	return registry.Figures{{Name: "x_total", Labels: []string{"result", `<"`}, N: 2.5}, {Name: "zero"}}
}

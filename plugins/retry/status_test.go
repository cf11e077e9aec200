package retry_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

func TestRetryAfterAndStatuses(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name, value string
		limit       time.Duration
		want        []time.Duration
	}{
		{"seconds", "10", 0, []time.Duration{10 * time.Second}},
		{"decimals", "2.5", 0, []time.Duration{2500 * time.Millisecond}},
		{"zero", "0", 0, []time.Duration{time.Second}},
		{"huge", "9223372037", 0, nil},
		{"a day from now", "+1 day", 2 * day, []time.Duration{day + time.Second}},
		{"a day from now, capped", "+1 day", 0, nil},
		{"past date", "-1 day", 0, []time.Duration{time.Second}},
		{"absent", "", 0, []time.Duration{time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				value := tt.value
				switch value {
				case "+1 day":
					value = time.Now().UTC().Add(day).Format(http.TimeFormat)
				case "-1 day":
					value = time.Now().UTC().Add(-day).Format(http.TimeFormat)
				}
				s := resiltest.NewScript(status(503, 0, "Retry-After: "+value), status(200, 0))
				p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: time.Second}, MaxRetryAfter: tt.limit}))
				_, err := do(t, p, s, get(t))
				require.NoError(t, err)
				require.Equal(t, tt.want, s.Waits())
			})
		})
	}
	// The time counts for every status from 400 on, but what is retried is for the classifier.
	for code, want := range map[int][]time.Duration{403: {time.Minute}, 202: {time.Second}} {
		for _, cfg := range []retry.Config{{}, {RetryResponse: func(resp *http.Response) bool { return resp.StatusCode == code }}} {
			synctest.Test(t, func(t *testing.T) {
				s := resiltest.NewScript(status(code, 0, "Retry-After: 60"), status(200, 0))
				cfg.Backoff = backoff.Constant{Delay: time.Second}
				_, err := do(t, core.Must(retry.New(cfg)), s, get(t))
				require.NoError(t, err)
				if cfg.RetryResponse == nil {
					require.Empty(t, s.Waits(), code)
					return
				}
				require.Equal(t, want, s.Waits(), code)
			})
		}
	}
	// Of theirs 505 is retried, and of any method unless that is turned off.
	for code, want := range map[int]int{200: 1, 400: 1, 413: 1, 408: 2, 429: 3, 500: 3, 505: 1} {
		require.Equal(t, want, sends(t, quick(retry.Config{}), code, t.Context(), http.MethodGet), code)
	}
	for method, want := range map[string]int{
		http.MethodPost: 1, http.MethodPatch: 1, http.MethodConnect: 1, // PUT and DELETE are idempotent
		http.MethodGet: 3, http.MethodHead: 3, http.MethodOptions: 3, http.MethodTrace: 3, http.MethodPut: 3, http.MethodDelete: 3,
	} {
		require.Equal(t, want, sends(t, quick(retry.Config{}), 500, t.Context(), method), method)
	}
}

package standard_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/standard"
)

const uploadSize = 64 << 20

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// An upload holds nothing in memory, and is as fast as without us. It is not parallel:
// it counts what the whole process allocates.
func TestAnUploadOf64MiBThroughAllOfIt(t *testing.T) { //nolint:paralleltest // see above
	resiltest.Goroutines(t)
	var got int64
	srv := resiltest.NewServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = io.Copy(io.Discard, r.Body)
	}))
	plain := http.Client{Transport: srv.Transport()}
	c := newClient(t, standard.Config{HTTP: plain})
	upload := func(hc *http.Client, getBody bool) (took time.Duration, allocated uint64) {
		body := func() io.ReadCloser { return io.NopCloser(io.LimitReader(zeros{}, uploadSize)) }
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, body())
		require.NoError(t, err)
		if getBody {
			req.ContentLength, req.GetBody = uploadSize, func() (io.ReadCloser, error) { return body(), nil }
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		resp, err := hc.Do(req)
		took = time.Since(start)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.EqualValues(t, uploadSize, got)
		return took, after.TotalAlloc - before.TotalAlloc
	}
	for name, getBody := range map[string]bool{"a stream of unknown length": false, "with GetBody": true} {
		quiettest.Repeat(t, func() error {
			var without, with []time.Duration
			most := uint64(0)
			for range 3 {
				took, _ := upload(&plain, getBody)
				without = append(without, took)
				took, allocated := upload(c.Client, getBody)
				with, most = append(with, took), max(most, allocated)
			}
			ratio := float64(median(without)) / float64(median(with))
			t.Logf("%s: %d bytes allocated, %.0f MiB/s, %.2f of what it is without", name, most, 64/median(with).Seconds(), ratio)
			require.LessOrEqual(t, most, uint64(1<<20), name)
			if ratio < 0.5 {
				return fmt.Errorf("%s: %.2f of what it is without", name, ratio)
			}
			return nil
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

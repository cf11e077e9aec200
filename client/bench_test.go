package client_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
)

func TestReplay_Allocations(t *testing.T) { //nolint:paralleltest // they are counted
	for _, body := range []io.Reader{nil, http.NoBody, strings.NewReader("in memory")} {
		req := request(t, http.MethodPut, body)
		ctx := req.Context()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 1000 {
			r := client.NewReplay(req, 1<<20)
			if sent, err := r.Attempt(ctx); err != nil || sent != req || client.Classify(sent, nil, errDown) == 0 {
				t.Fatal("it is not the request", err)
			}
			r.Close()
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.Mallocs-before.Mallocs, uint64(100))
	}
}

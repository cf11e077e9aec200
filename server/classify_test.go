package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]core.Outcome{
		0: core.Success, 101: core.Success, 200: core.Success, 404: core.Success, 429: core.Success, 499: core.Success,
		500: core.Failure, 501: core.Success, 502: core.Failure, 503: core.Failure, 505: core.Success, 599: core.Failure,
	} {
		require.Equal(t, want, server.Classify(get("/"), status), status)
	}
	synctest.Test(t, func(t *testing.T) {
		left, leave := context.WithCancel(t.Context())
		leave()
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(time.Second + 1)
		for _, status := range []int{0, 200, 500} {
			require.Equal(t, core.Ignored, server.Classify(get("/").WithContext(left), status), status)
			require.Equal(t, core.Failure, server.Classify(get("/").WithContext(late), status), status)
		}
	})
}

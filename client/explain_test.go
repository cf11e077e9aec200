package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
)

var errDown = errors.New("connection reset")

type reads func(p []byte) (int, error)

func (f reads) Read(p []byte) (int, error) { return f(p) }

// attempt reads the body of an attempt at req, and returns how its error is judged.
func attempt(t *testing.T, req *http.Request, maxBuffer int64, err error) core.Outcome {
	t.Helper()
	replay := client.NewReplay(req, maxBuffer)
	defer replay.Close()
	sent, failed := replay.Attempt(req.Context())
	require.NoError(t, failed)
	_, _ = io.Copy(io.Discard, sent.Body)
	_ = sent.Body.Close()
	explained := client.Explain(sent, err)
	require.ErrorIs(t, explained, err)
	require.Equal(t, err.Error(), explained.Error())
	return client.Classify(req.Context(), nil, explained)
}

func TestABodyIsJudgedHoweverItIsSent(t *testing.T) {
	t.Parallel()
	fails := func() io.Reader {
		return io.MultiReader(strings.NewReader("abc"), reads(func([]byte) (int, error) { return 0, errDown }))
	}
	for name, c := range map[string]struct {
		body   func() io.Reader
		length int64
		want   core.Outcome
	}{
		"whole":               {func() io.Reader { return io.LimitReader(strings.NewReader("abc"), 3) }, 3, core.Failure},
		"of unknown length":   {func() io.Reader { return io.LimitReader(strings.NewReader("abc"), 3) }, -1, core.Failure},
		"in memory":           {func() io.Reader { return strings.NewReader("abc") }, 3, core.Failure},
		"a read fails":        {fails, -1, core.Ignored},
		"too short":           {func() io.Reader { return io.LimitReader(strings.NewReader("ab"), 2) }, 3, core.Ignored},
		"too long":            {func() io.Reader { return io.LimitReader(strings.NewReader("abcd"), 4) }, 3, core.Ignored},
		"bytes, too short":    {func() io.Reader { return bytes.NewReader([]byte("ab")) }, 3, core.Ignored},
		"a buffer, too short": {func() io.Reader { return bytes.NewBufferString("ab") }, 3, core.Ignored},
		"not comparable":      {func() io.Reader { return reads(func([]byte) (int, error) { return 0, io.EOF }) }, -1, core.Failure},
	} {
		for _, maxBuffer := range []int64{-1, 0, 2, 100} {
			for _, getBody := range []bool{false, true} {
				req := request(t, http.MethodPut, c.body())
				req.ContentLength, req.GetBody = c.length, nil
				if getBody {
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(c.body()), nil }
				}
				require.Equal(t, c.want, attempt(t, req, maxBuffer, errDown), "%s: %d %t", name, maxBuffer, getBody)
			}
		}
	}
}

func TestAReadAfterTheBodyWasClosedIsNoFault(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	req := request(t, http.MethodPut, r)
	replay := client.NewReplay(req, -1)
	sent, err := replay.Attempt(req.Context())
	require.NoError(t, err)
	require.NoError(t, sent.Body.Close())
	_, err = sent.Body.Read(make([]byte, 1))
	require.Error(t, err)
	require.Equal(t, core.Failure, client.Classify(t.Context(), nil, client.Explain(sent, errDown)))
	replay.Close()
}

func TestARequestWithoutABodyIsWatchedForNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	for _, body := range []io.Reader{nil, http.NoBody, strings.NewReader("in memory")} {
		req := request(t, http.MethodPut, body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 1000 {
			replay := client.NewReplay(req, -1)
			sent, err := replay.Attempt(req.Context())
			if err != nil || sent != req || client.Explain(sent, nil) != nil {
				t.Fatal("it is not the request", err)
			}
			replay.Close()
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.Mallocs-before.Mallocs, uint64(100))
	}
}

func TestRejectionsStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	req := request(t, http.MethodGet, nil)
	req.Header.Set("X", "a\nb")
	err := fmt.Errorf("breaker: %w", core.ErrRejected)
	require.Equal(t, err, client.Explain(req, err))
	require.NoError(t, client.Explain(req, nil))
}

func TestNotSentIsOnlyWhatNetHTTPSaysOfAProxy(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		errors.New("Proxy Authentication Required"):     true,
		errors.New("Forbidden"):                         true,
		errors.New("OK"):                                false,
		errors.New("407 Proxy Authentication Required"): false,
		errors.New(""):                                  false,
		io.EOF:                                          false,
		fmt.Errorf("proxy: %w", errDown):                false,
	} {
		require.Equal(t, want, client.NotSent(err), "%v", err)
	}
}

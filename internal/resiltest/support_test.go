package resiltest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeTB is a test that may fail.
type fakeTB struct {
	testing.TB

	mu       sync.Mutex
	cleanups []func()
	failures []string
	logged   []string
}

func (*fakeTB) Helper()            {}
func (f *fakeTB) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *fakeTB) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logged = append(f.logged, fmt.Sprintf(format, args...))
}

// end ends the test, and tells how it failed.
func (f *fakeTB) end() []string {
	for len(f.cleanups) > 0 {
		last := len(f.cleanups) - 1
		c := f.cleanups[last]
		f.cleanups = f.cleanups[:last]
		c()
	}
	return f.failures
}

func request(ctx context.Context, t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	return req
}

// fetch sends a GET and reads all of the answer.
func fetch(ctx context.Context, t *testing.T, rt http.RoundTripper, url string) (int, string, error) {
	t.Helper()
	resp, err := rt.RoundTrip(request(ctx, t, http.MethodGet, url, ""))
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(b), err
}

var errBoom = errors.New("boom")

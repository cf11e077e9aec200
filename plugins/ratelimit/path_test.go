package ratelimit_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/pathtest"
)

// What a newcomer reads to follow one request that is allowed, from the handler to the arithmetic.
func TestServer_Path(t *testing.T) {
	t.Parallel()
	p := pathtest.Of(t, `limits, err := ratelimit.New(ratelimit.Config{Limit: ratelimit.PerHour(1000)})
	check(err)
	s, err := ratelimit.NewServer(limits, ratelimit.ServerOptions{XRateLimit: true})
	check(err)
	h := s.Handler(http.NotFoundHandler())
	operation := func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) }`,
		"net/http", "net/http/httptest", "github.com/gresil/gresil/plugins/ratelimit")
	require.LessOrEqual(t, len(p.Functions), 30, strings.Join(p.Functions, "\n"))
	require.LessOrEqual(t, len(p.Files), 10, strings.Join(p.Files, "\n"))
	require.LessOrEqual(t, p.Lines, 60, p.Longest)
	require.Contains(t, p.Files, "plugins/ratelimit/request.go")
}

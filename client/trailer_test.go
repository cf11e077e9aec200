package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
)

// summed is a body that fills a trailer of the request with its length when it ends.
type summed struct {
	io.Reader
	trailer http.Header
	read    int
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.read += n
	if errors.Is(err, io.EOF) {
		s.trailer.Set("X-Sum", strings.Repeat("i", s.read))
	}
	return n, err
}

func (*summed) Close() error { return nil }

// upload returns a request whose trailers are filled while its body is read.
func upload(t *testing.T, getBody bool, text string) *http.Request {
	t.Helper()
	req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://example.test/", nil))
	req.Trailer = http.Header{"X-Sum": nil, "X-Set": {"early"}}
	body := func() io.ReadCloser { return &summed{Reader: strings.NewReader(text), trailer: req.Trailer} }
	req.Body, req.ContentLength = body(), -1
	if getBody {
		req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
	}
	return req
}

func TestEachAttemptHasTheTrailersThatItsBodyFills(t *testing.T) {
	t.Parallel()
	for name, getBody := range map[string]bool{"GetBody": true, "streamed": false} {
		req := upload(t, getBody, "body")
		r := client.NewReplay(req, 100)
		for n := range 3 {
			attempt, err := r.Attempt(t.Context())
			require.NoError(t, err)
			inner := attempt.WithContext(context.WithValue(t.Context(), markedKey{}, n)) // as a plugin makes it
			require.Contains(t, inner.Trailer, "X-Sum", name)
			require.Empty(t, inner.Trailer.Get("X-Sum"), "%s: the body was not read", name)
			_, err = io.Copy(io.Discard, inner.Body)
			require.NoError(t, err)
			require.Equal(t, "iiii", inner.Trailer.Get("X-Sum"), "%s, attempt %d", name, n)
			require.Equal(t, "early", inner.Trailer.Get("X-Set"), name)
			require.NoError(t, inner.Body.Close())
		}
		r.Close()
		require.Equal(t, "iiii", req.Trailer.Get("X-Sum"), "the caller's own")
	}
}

func TestWhatAPluginSetsInATrailerStays(t *testing.T) {
	t.Parallel()
	req := upload(t, true, "body")
	r := client.NewReplay(req, 0)
	defer r.Close()
	core.Must(r.Attempt(t.Context()))
	second := core.Must(r.Attempt(t.Context()))
	second.Trailer = http.Header{"X-Set": {"signed"}, "X-New": {"new"}}
	_, err := io.Copy(io.Discard, second.Body)
	require.NoError(t, err)
	require.Equal(t, http.Header{"X-Set": {"signed"}, "X-New": {"new"}, "X-Sum": {"iiii"}}, second.Trailer)
	require.Equal(t, []string{"early"}, req.Trailer["X-Set"])
	third := core.Must(r.Attempt(t.Context()))
	third.Trailer = nil
	_, err = io.Copy(io.Discard, third.Body)
	require.NoError(t, err)
	require.Nil(t, third.Trailer)
}

func TestABodyThatATransportGetsByItselfFillsTheTrailersToo(t *testing.T) {
	t.Parallel()
	r := client.NewReplay(upload(t, true, "body"), 0)
	defer r.Close()
	attempt := core.Must(r.Attempt(t.Context()))
	require.NoError(t, attempt.Body.Close())
	_, err := io.Copy(io.Discard, core.Must(attempt.GetBody())) // as net/http does after a connection is lost
	require.NoError(t, err)
	require.Equal(t, "iiii", attempt.Trailer.Get("X-Sum"))
}

// For the race detector, and for "concurrent map iteration and map write".
func TestAnAttemptThatStillReadsItsBodyLeavesTheTrailersOfTheNextAlone(t *testing.T) {
	t.Parallel()
	for _, getBody := range []bool{true, false} {
		req := upload(t, getBody, strings.Repeat("x", 1<<10))
		r := client.NewReplay(req, 1<<20)
		var wg sync.WaitGroup
		for range 8 {
			attempt, err := r.Attempt(t.Context())
			require.NoError(t, err)
			wg.Go(func() {
				_, _ = io.Copy(io.Discard, io.MultiReader(io.LimitReader(attempt.Body, 10), attempt.Body))
				_ = attempt.Trailer.Clone()
				_ = attempt.Body.Close()
			})
		}
		wg.Wait()
		r.Close()
	}
}

func TestAWrappedEmptyBodyCanBeSentAgain(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.ReadCloser{
		"NopCloser": io.NopCloser(http.NoBody),
		"struct":    struct{ io.ReadCloser }{http.NoBody},
		"text":      io.NopCloser(strings.NewReader("")),
	} {
		req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test/", nil))
		req.Body = body
		r := client.NewReplay(req, 0)
		for range 3 {
			require.NoError(t, r.Prepare(), name)
			attempt, err := r.Attempt(t.Context())
			require.NoError(t, err, name)
			text, err := io.ReadAll(attempt.Body)
			require.NoError(t, err, name)
			require.Empty(t, text)
			require.NoError(t, attempt.Body.Close())
		}
		r.Close()
	}
	req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test/", nil))
	req.Body = io.NopCloser(strings.NewReader("x"))
	r := client.NewReplay(req, 0)
	defer r.Close()
	attempt := core.Must(r.Attempt(t.Context()))
	_, err := io.ReadAll(attempt.Body)
	require.NoError(t, err)
	require.ErrorIs(t, r.Prepare(), client.ErrNotReplayable, "a byte is a body")
}

// A transport of HTTP/2 may still read the body of an attempt that failed. The race detector is the
// judge; without it, a map that is read while it is written ends the process.
func TestExplainWhileTheTransportStillReadsABodyWithTrailers(t *testing.T) {
	t.Parallel()
	for _, getBody := range []bool{true, false} {
		for range 10 {
			outer := client.NewReplay(upload(t, getBody, "body"), -1)
			inner := client.NewReplay(core.Must(outer.Attempt(t.Context())), 100)
			attempt := core.Must(inner.Attempt(t.Context()))
			var transport sync.WaitGroup
			transport.Go(func() { _, _ = io.Copy(io.Discard, attempt.Body) })
			require.Equal(t, errDown, client.Explain(attempt, errDown))
			transport.Wait()
			require.Equal(t, "iiii", attempt.Trailer.Get("X-Sum"))
		}
	}
}

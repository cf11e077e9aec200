package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

// snapshot returns a function that fails if req has changed.
func snapshot(t *testing.T, req *http.Request) (same func()) {
	t.Helper()
	shallow, header := *req, req.Header.Clone()
	return func() {
		t.Helper()
		now := *req
		require.Equal(t, reflect.ValueOf(shallow.GetBody).Pointer(), reflect.ValueOf(now.GetBody).Pointer())
		shallow.GetBody, now.GetBody = nil, nil
		require.True(t, reflect.DeepEqual(shallow, now), "the caller's request was changed")
		require.Equal(t, header, req.Header)
	}
}

func TestReplay_NoBody(t *testing.T) {
	t.Parallel()
	for _, b := range []io.ReadCloser{nil, http.NoBody} {
		req := request(t, http.MethodGet, nil)
		req.Body = b
		same := snapshot(t, req)
		r := client.NewReplay(req, 0)
		require.Same(t, req, core.Must(r.Attempt(req.Context())))
		require.NoError(t, r.Ready())
		second := core.Must(r.Attempt(req.Context()))
		second.Header.Set("X", "changed")
		second.URL.Path = "/changed"
		r.Close()
		same()
		require.Equal(t, "/x", req.URL.Path)
	}
}

// bodies are those that a request can come with.
func bodies(content string) map[string]struct {
	body    *resiltest.Body
	getBody bool
	limit   int64
	trailer http.Header
	again   bool // after the whole of it was read
} {
	return map[string]struct {
		body    *resiltest.Body
		getBody bool
		limit   int64
		trailer http.Header
		again   bool
	}{
		"GetBody":              {resiltest.NewBody(content), true, 0, nil, true},
		"GetBody, trailers":    {resiltest.NewBody(content), true, 0, http.Header{"X-Sum": nil}, false},
		"stream":               {resiltest.NewBody(content), false, 0, nil, false},
		"stream kept":          {resiltest.NewBody(content), false, int64(len(content)), nil, true},
		"stream kept, trailer": {resiltest.NewBody(content), false, int64(len(content)), http.Header{"X-Sum": nil}, false},
		"stream too long":      {resiltest.NewBody(content), false, int64(len(content)) - 1, nil, false},
		"stream kept, roomy":   {resiltest.NewBody(content), false, 1 << 30, nil, true},
		"stream kept, any":     {resiltest.NewBody(content), false, math.MaxInt64, nil, true},
		"stream kept, 1 byte":  {resiltest.NewBody(content), false, 1, nil, false},
	}
}

func TestReplay_Attempts(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("abc", 50_000)
	for name, tc := range bodies(content) {
		req := request(t, http.MethodPut, tc.body)
		req.Trailer = tc.trailer
		var fresh []*resiltest.Body
		if tc.getBody {
			req.GetBody = func() (io.ReadCloser, error) {
				fresh = append(fresh, resiltest.NewBody(content))
				return fresh[len(fresh)-1], nil
			}
		}
		same := snapshot(t, req)
		r := client.NewReplay(req, tc.limit)
		require.NoError(t, r.Ready(), name)
		for i := range 3 {
			attempt, err := r.Attempt(req.Context())
			if i > 0 && !tc.again {
				require.ErrorIs(t, err, client.ErrNotReplayable, name)
				break
			}
			require.NoError(t, err, name)
			require.NotSame(t, req, attempt)
			require.Equal(t, content, readAll(t, attempt.Body), name)
			require.Equal(t, tc.again, r.Ready() == nil, name)
			require.NoError(t, attempt.Body.Close())
			require.NoError(t, attempt.Body.Close(), "net/http may close twice")
		}
		r.Close()
		r.Close()
		for _, b := range append(fresh, tc.body) {
			require.Equal(t, 1, b.Closes(), name)
		}
		same()
	}
}

func TestReplay_Trailers(t *testing.T) {
	t.Parallel()
	req := request(t, http.MethodPut, reads(nil))
	req.Trailer = http.Header{"X-Sum": nil}
	req.Body = io.NopCloser(reads(func([]byte) (int, error) { req.Trailer.Set("X-Sum", "17"); return 0, io.EOF }))
	r := client.NewReplay(req, 100)
	sent := core.Must(r.Attempt(t.Context()))
	send(sent.Body)
	require.Equal(t, "17", sent.Trailer.Get("X-Sum"), "what the caller sets while the body is read")
	require.ErrorIs(t, r.Ready(), client.ErrNotReplayable)
}

func TestReplay_SmallBodyInMemory(t *testing.T) {
	t.Parallel()
	for _, b := range []io.Reader{strings.NewReader("x"), bytes.NewReader([]byte("x")), bytes.NewBufferString("x"), io.NopCloser(strings.NewReader("x"))} {
		req := request(t, http.MethodPost, b)
		if req.GetBody == nil {
			req.ContentLength = 1
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
		}
		r := client.NewReplay(req, 0)
		require.Same(t, req, core.Must(r.Attempt(req.Context())), "net/http sends it in one packet when it sees its type")
		second := core.Must(r.Attempt(req.Context()))
		require.NotContains(t, reflect.TypeOf(second.Body).String(), "client.")
		require.Equal(t, "x", readAll(t, second.Body))
	}
	large := request(t, http.MethodPost, strings.NewReader(strings.Repeat("x", 64<<10+1)))
	sent := core.Must(client.NewReplay(large, 0).Attempt(large.Context()))
	_, _ = sent.Body.Read(make([]byte, 1))
	require.Equal(t, core.Ignored, client.Classify(sent, nil, limit{}), "it takes time, so it is observed")
}

func TestReplay_UnreadStream(t *testing.T) {
	t.Parallel()
	b := resiltest.NewBody("upload")
	req := request(t, http.MethodPost, b)
	r := client.NewReplay(req, 0)
	for range 3 { // three dials that fail: the transport closes the body unread
		attempt := core.Must(r.Attempt(req.Context()))
		require.NoError(t, attempt.Body.Close())
		_, err := attempt.Body.Read(make([]byte, 1))
		require.Error(t, err, "it is closed")
		require.NoError(t, r.Ready())
		require.Zero(t, b.Closes(), "it is still needed")
	}
	attempt := core.Must(r.Attempt(req.Context()))
	require.Equal(t, "upload", readAll(t, attempt.Body))
	require.ErrorIs(t, r.Ready(), client.ErrNotReplayable)
	r.Close()
	require.Zero(t, b.Closes(), "the transport has it")
	require.NoError(t, attempt.Body.Close())
	require.Equal(t, 1, b.Closes())

	for _, empty := range []io.ReadCloser{io.NopCloser(http.NoBody), struct{ io.ReadCloser }{http.NoBody}, io.NopCloser(strings.NewReader(""))} {
		req := request(t, http.MethodGet, nil)
		req.Body = empty
		r := client.NewReplay(req, 0)
		for range 3 {
			attempt := core.Must(r.Attempt(t.Context()))
			require.Empty(t, readAll(t, attempt.Body))
			require.NoError(t, attempt.Body.Close())
		}
	}
}

func TestReplay_Close(t *testing.T) {
	t.Parallel()
	for name, tc := range bodies("x") {
		for attempts := range 3 {
			var all []*resiltest.Body
			body := func() *resiltest.Body {
				all = append(all, resiltest.NewBody("x"))
				return all[len(all)-1]
			}
			req := request(t, http.MethodPost, body())
			req.Trailer = tc.trailer
			if tc.getBody {
				req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
			}
			r := client.NewReplay(req, tc.limit)
			var last *http.Request
			for range attempts {
				if r.Ready() != nil {
					break
				}
				if last != nil {
					_ = last.Body.Close()
				}
				last = core.Must(r.Attempt(t.Context()))
			}
			_ = r.Ready() // prepared for nothing
			if last != nil {
				require.Zero(t, all[0].Closes()*(2-attempts), "%s: the transport has it", name)
				require.NoError(t, last.Body.Close()) // after a panic of a transport
			}
			r.Close()
			for _, b := range all {
				require.Equal(t, 1, b.Closes(), "%s, %d attempts", name, attempts)
			}
		}
	}
}

func TestReplay_Ready(t *testing.T) {
	t.Parallel()
	broken := errors.New("file is gone")
	var fresh []*resiltest.Body
	asked := 0
	req := request(t, http.MethodPut, resiltest.NewBody("x"))
	req.GetBody = func() (io.ReadCloser, error) {
		if asked++; asked == 2 {
			return nil, broken
		}
		fresh = append(fresh, resiltest.NewBody("x"))
		return fresh[len(fresh)-1], nil
	}
	r := client.NewReplay(req, 0)
	require.NoError(t, r.Ready())
	require.Zero(t, asked, "the first attempt has the caller's body")
	send(core.Must(r.Attempt(t.Context())).Body)
	require.NoError(t, r.Ready())
	require.NoError(t, r.Ready())
	require.Equal(t, 1, asked, "it has one")
	send(core.Must(r.Attempt(t.Context())).Body)
	require.EqualError(t, r.Ready(), "client: GetBody: file is gone")
	require.NoError(t, r.Ready())
	r.Close()
	require.Len(t, fresh, 2)
	require.Equal(t, []int{1, 1}, []int{fresh[0].Closes(), fresh[1].Closes()})

	req.GetBody = func() (io.ReadCloser, error) { return nil, nil }
	r = client.NewReplay(req, 0)
	core.Must(r.Attempt(t.Context()))
	require.Equal(t, http.NoBody, core.Must(r.Attempt(t.Context())).Body)

	// What the caller's own reader fails with stays failed.
	r = client.NewReplay(request(t, http.MethodPut, fails()), 100)
	send(core.Must(r.Attempt(t.Context())).Body)
	require.ErrorIs(t, r.Ready(), client.ErrNotReplayable)
}

// A valuesContext is a value that == panics on.
type valuesContext struct {
	context.Context
	values map[string]string
}

func TestReplay_Context(t *testing.T) {
	t.Parallel()
	values := valuesContext{t.Context(), map[string]string{"tenant": "a"}}
	inside := struct{ context.Context }{values} // its type can be compared, its value cannot
	for _, ctx := range []context.Context{values, inside} {
		for _, req := range []*http.Request{request(t, http.MethodGet, nil), request(t, http.MethodGet, nil).WithContext(ctx)} {
			r := client.NewReplay(req, 0)
			for range 2 {
				require.Equal(t, ctx, core.Must(r.Attempt(ctx)).Context())
			}
		}
	}
}

// A transport may go on reading the body of an attempt that is over: golang/go issues 30597 and 51907.
func TestReplay_OldAttemptStillReads(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{100, 3} { // the second is passed by what is read meanwhile
		synctest.Test(t, func(t *testing.T) {
			source, producer := io.Pipe()
			r := client.NewReplay(request(t, http.MethodPut, source), limit)
			old := core.Must(r.Attempt(t.Context()))
			var readers sync.WaitGroup
			got, failed := make([]string, 2), make([]error, 2)
			read := func(i int, body io.Reader) {
				readers.Go(func() {
					var b []byte
					b, failed[i] = io.ReadAll(body)
					got[i] = string(b)
				})
			}
			read(0, old.Body)
			_, _ = io.WriteString(producer, "abc")
			synctest.Wait() // it waits for more, and the server has answered 503 meanwhile
			require.NoError(t, r.Ready())
			again := core.Must(r.Attempt(t.Context()))
			read(1, again.Body)
			synctest.Wait()
			_, _ = io.WriteString(producer, "defghi")
			_ = producer.Close()
			readers.Wait()
			require.Equal(t, "abcdefghi", got[1], "the old one takes nothing from the new one")
			require.NoError(t, failed[1])
			require.True(t, strings.HasPrefix("abcdefghi", got[0]), got[0])
			require.EqualError(t, failed[0], "client: request body is closed, or read by a later attempt")
			_ = old.Body.Close()
			r.Close()
			_ = again.Body.Close()
		})
	}
}

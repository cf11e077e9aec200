package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/resiltest"
)

// snapshot is all that a request holds, to see that nothing of it changes.
func snapshot(req *http.Request) (shallow http.Request, header http.Header) {
	return *req, req.Header.Clone()
}

func requireUnchanged(t *testing.T, req *http.Request, shallow http.Request, header http.Header) {
	t.Helper()
	shallow.GetBody, req.GetBody = nil, nil // not comparable; the field is looked at in use
	require.True(t, reflect.DeepEqual(shallow, *req), "the caller's request was changed")
	require.Equal(t, header, req.Header)
}

func TestReplayWithoutABodyIsTheRequestItself(t *testing.T) {
	for _, b := range []io.ReadCloser{nil, http.NoBody} {
		req := request(t, http.MethodGet, nil)
		req.Body = b
		shallow, header := snapshot(req)
		r := client.NewReplay(req, 0)
		first, err := r.Attempt(req.Context())
		require.NoError(t, err)
		require.Same(t, req, first)
		require.NoError(t, r.Prepare())
		second, err := r.Attempt(req.Context())
		require.NoError(t, err)
		second.Header.Set("X", "changed")
		second.URL.Path = "/changed"
		r.Close()
		requireUnchanged(t, req, shallow, header)
		require.Equal(t, "/x", req.URL.Path)
	}
}

func TestReplayWithoutABodyAllocatesNothing(t *testing.T) {
	req := request(t, http.MethodGet, nil)
	ctx := req.Context()
	var before, after runtime.MemStats
	const n = 10_000
	runtime.ReadMemStats(&before)
	for range n {
		r := client.NewReplay(req, 1<<20)
		if _, err := r.Attempt(ctx); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.Mallocs-before.Mallocs, uint64(n/100))
}

// bodies are those that a request can come with, and what they are worth.
func bodies(content string) map[string]struct {
	body    *resiltest.Body
	getBody bool
	limit   int64
	again   bool // after the whole of it was read
} {
	return map[string]struct {
		body    *resiltest.Body
		getBody bool
		limit   int64
		again   bool
	}{
		"GetBody":             {resiltest.NewBody(content), true, 0, true},
		"stream":              {resiltest.NewBody(content), false, 0, false},
		"stream kept":         {resiltest.NewBody(content), false, int64(len(content)), true},
		"stream too long":     {resiltest.NewBody(content), false, int64(len(content)) - 1, false},
		"stream sent once":    {resiltest.NewBody(content), false, -1, false},
		"GetBody sent once":   {resiltest.NewBody(content), true, -1, true},
		"stream kept, roomy":  {resiltest.NewBody(content), false, 1 << 30, true},
		"stream kept, 1 byte": {resiltest.NewBody(content), false, 1, false},
	}
}

func TestReplayGivesEachAttemptTheWholeBody(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("abc", 50_000)
	for name, tc := range bodies(content) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(t, http.MethodPut, tc.body)
			var fresh []*resiltest.Body
			if tc.getBody {
				req.GetBody = func() (io.ReadCloser, error) {
					fresh = append(fresh, resiltest.NewBody(content))
					return fresh[len(fresh)-1], nil
				}
			}
			shallow, header := snapshot(req)
			r := client.NewReplay(req, tc.limit)
			require.NoError(t, r.Prepare())
			for i := range 3 {
				attempt, err := r.Attempt(req.Context())
				if i > 0 && !tc.again {
					require.ErrorIs(t, err, client.ErrNotReplayable)
					break
				}
				require.NoError(t, err)
				require.NotSame(t, req, attempt)
				require.Equal(t, content, readAll(t, attempt.Body))
				require.Equal(t, tc.again, r.Prepare() == nil)
				require.NoError(t, attempt.Body.Close())
				require.NoError(t, attempt.Body.Close(), "net/http may close twice")
			}
			r.Close()
			r.Close()
			require.Equal(t, 1, tc.body.Closes())
			for _, b := range fresh {
				require.Equal(t, 1, b.Closes())
			}
			requireUnchanged(t, req, shallow, header)
		})
	}
}

func TestReplayLeavesABodyInMemoryAsItIs(t *testing.T) {
	t.Parallel()
	for _, b := range []io.Reader{
		strings.NewReader("x"), bytes.NewReader([]byte("x")), bytes.NewBufferString("x"),
		io.NopCloser(strings.NewReader("x")),
	} {
		req := request(t, http.MethodPost, b)
		if req.GetBody == nil {
			req.ContentLength = 1
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
		}
		r := client.NewReplay(req, 0)
		first, err := r.Attempt(req.Context())
		require.NoError(t, err)
		require.Same(t, req, first, "net/http sends it in one packet when it sees its type")
		second, err := r.Attempt(req.Context())
		require.NoError(t, err)
		require.NotContains(t, reflect.TypeOf(second.Body).String(), "client.")
		require.Equal(t, "x", readAll(t, second.Body))
		require.EqualValues(t, 1, second.ContentLength)
	}
}

func TestReplayOfABodyThatWasNotRead(t *testing.T) {
	t.Parallel()
	b := resiltest.NewBody("upload")
	req := request(t, http.MethodPost, b)
	r := client.NewReplay(req, 0)
	for range 3 { // three dials that fail: the transport closes the body unread
		attempt, err := r.Attempt(req.Context())
		require.NoError(t, err)
		require.NoError(t, attempt.Body.Close())
		_, err = attempt.Body.Read(make([]byte, 1))
		require.Error(t, err, "it is closed")
		require.NoError(t, r.Prepare())
		require.Zero(t, b.Closes(), "it is still needed")
	}
	attempt, err := r.Attempt(req.Context())
	require.NoError(t, err)
	require.Equal(t, "upload", readAll(t, attempt.Body))
	require.ErrorIs(t, r.Prepare(), client.ErrNotReplayable)
	r.Close()
	require.Zero(t, b.Closes(), "the transport has it")
	require.NoError(t, attempt.Body.Close())
	require.Equal(t, 1, b.Closes())
}

func TestReplayClosesABodyThatNoAttemptGot(t *testing.T) {
	t.Parallel()
	for name, tc := range bodies("x") {
		for _, end := range []func(*client.Replay){(*client.Replay).Close, (*client.Replay).Abort} {
			b := resiltest.NewBody("x")
			req := request(t, http.MethodPost, b)
			if tc.getBody {
				req.GetBody = func() (io.ReadCloser, error) { return resiltest.NewBody("x"), nil }
			}
			r := client.NewReplay(req, tc.limit)
			end(&r)
			require.Equal(t, 1, b.Closes(), name)
		}
	}
}

func TestReplayAbortClosesWhatAnAttemptHas(t *testing.T) {
	t.Parallel()
	for name, tc := range bodies("x") {
		var fresh *resiltest.Body
		req := request(t, http.MethodPost, tc.body)
		if tc.getBody {
			req.GetBody = func() (io.ReadCloser, error) { fresh = resiltest.NewBody("x"); return fresh, nil }
		}
		r := client.NewReplay(req, tc.limit)
		first, err := r.Attempt(req.Context())
		require.NoError(t, err)
		if tc.again {
			_ = first.Body.Close()
			_, err = r.Attempt(req.Context())
			require.NoError(t, err)
		}
		r.Abort()
		r.Close()
		_ = first.Body.Close()
		require.Equal(t, 1, tc.body.Closes(), name)
		if fresh != nil {
			require.Equal(t, 1, fresh.Closes(), name)
		}
	}
}

func TestReplayErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("file is gone")
	req := request(t, http.MethodPut, resiltest.NewBody("x"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	r := client.NewReplay(req, 0)
	_, err := r.Attempt(req.Context())
	require.NoError(t, err, "the first attempt has the caller's body")
	_, err = r.Attempt(req.Context())
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "client: GetBody: file is gone")

	// what the caller's own reader fails with stays failed
	r = client.NewReplay(request(t, http.MethodPut, io.MultiReader(strings.NewReader("abc"), failing{broken})), 100)
	attempt, err := r.Attempt(t.Context())
	require.NoError(t, err)
	_, err = io.ReadAll(attempt.Body)
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, r.Prepare(), client.ErrNotReplayable)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type ctxKey struct{}

func TestReplayHandsOverTheContext(t *testing.T) {
	t.Parallel()
	req := request(t, http.MethodGet, nil)
	ctx := context.WithValue(t.Context(), ctxKey{}, 1)
	r := client.NewReplay(req, 0)
	for range 2 {
		attempt, err := r.Attempt(ctx)
		require.NoError(t, err)
		require.Equal(t, ctx, attempt.Context())
	}
	require.NotEqual(t, ctx, req.Context())
}

// A valuesContext is a value that == panics on.
type valuesContext struct {
	context.Context

	values map[string]string
}

func TestReplayTakesAContextThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	ctx := valuesContext{t.Context(), map[string]string{"tenant": "a"}}
	req := request(t, http.MethodGet, nil).WithContext(ctx)
	r := client.NewReplay(req, 0)
	for range 2 {
		attempt, err := r.Attempt(req.Context())
		require.NoError(t, err)
		require.Equal(t, ctx, attempt.Context())
	}
}

// A transport may go on reading the body of an attempt that is over: golang/go
// issues 30597 and 51907.
func TestReplayWhileTheAttemptBeforeStillReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, producer := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://example.test/", source)
		require.NoError(t, err)
		r := client.NewReplay(req, 100)
		old, err := r.Attempt(req.Context())
		require.NoError(t, err)
		var readers sync.WaitGroup
		got := make([]string, 2)
		read := func(i int, body io.Reader) {
			readers.Go(func() {
				b, _ := io.ReadAll(body)
				got[i] = string(b)
			})
		}
		read(0, old.Body)
		_, _ = io.WriteString(producer, "abc")
		synctest.Wait() // it waits for more, and the server has answered 503 meanwhile
		require.NoError(t, r.Prepare())
		again, err := r.Attempt(req.Context())
		require.NoError(t, err)
		read(1, again.Body)
		synctest.Wait()
		_, _ = io.WriteString(producer, "def")
		_ = producer.Close()
		readers.Wait()
		require.Equal(t, []string{"abcdef", "abcdef"}, got, "neither takes bytes from the other")
		_ = old.Body.Close()
		r.Close()
		_ = again.Body.Close()
	})
}

func TestReplayPastTheLimitOnlyTheNewestReads(t *testing.T) {
	t.Parallel()
	content := "0123456789"
	req := request(t, http.MethodPut, resiltest.NewBody(content))
	r := client.NewReplay(req, 4)
	old, err := r.Attempt(t.Context())
	require.NoError(t, err)
	_, err = io.ReadFull(old.Body, make([]byte, 3))
	require.NoError(t, err)
	again, err := r.Attempt(t.Context())
	require.NoError(t, err)
	n, err := io.ReadFull(old.Body, make([]byte, 2)) // the 5th byte is one too many, and must not be lost
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.ErrorIs(t, r.Prepare(), client.ErrNotReplayable)
	_, err = old.Body.Read(make([]byte, 1))
	require.EqualError(t, err, "client: body is read by a later attempt")
	require.Equal(t, content, readAll(t, again.Body))
}

// Readers that come and go at random see the whole body, or an error, never a
// part that looks whole.
func TestReplayAgainstAModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		content := strings.Repeat("0123456789abcdef", 20)[:rnd.IntN(200)]
		limit := max(0, rnd.Int64N(260)-40)
		r := client.NewReplay(request(t, http.MethodPut, resiltest.NewBody(content)), limit)
		type reader struct {
			io.ReadCloser
			got  []byte
			done bool
		}
		var readers []*reader
		for range 60 {
			if len(readers) == 0 || rnd.IntN(8) == 0 {
				a, err := r.Attempt(t.Context())
				if err == nil {
					readers = append(readers, &reader{ReadCloser: a.Body})
				} else {
					require.ErrorIs(t, err, client.ErrNotReplayable)
					require.True(t, limit == 0 || int64(len(content)) > limit, "seed %d", seed)
				}
			}
			one := readers[rnd.IntN(len(readers))]
			if one.done {
				continue
			}
			p := make([]byte, rnd.IntN(40))
			n, err := one.Read(p)
			one.got = append(one.got, p[:n]...)
			require.Equal(t, content[:len(one.got)], string(one.got), "seed %d", seed)
			if one.done = err != nil; one.done && errors.Is(err, io.EOF) {
				require.Equal(t, content, string(one.got), "seed %d", seed)
			} else if err != nil {
				require.NotSame(t, one, readers[len(readers)-1], "seed %d: the newest never fails: %v", seed, err)
			}
		}
	}
}

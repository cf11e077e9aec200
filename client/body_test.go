package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

type reads func(p []byte) (int, error)

func (f reads) Read(p []byte) (int, error) { return f(p) }

func whole() io.Reader { return io.LimitReader(strings.NewReader("abc"), 3) }

func fails() io.Reader {
	return io.MultiReader(strings.NewReader("a"), iotest.ErrReader(errors.New("the disk is gone")))
}

// upload returns a request of 3 bytes. getBody can be nil.
func upload(t *testing.T, body io.Reader, getBody func() io.Reader) *http.Request {
	t.Helper()
	req := request(t, http.MethodPut, body)
	req.ContentLength, req.GetBody = 3, nil
	if getBody != nil {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(getBody()), nil }
	}
	return req
}

// send reads a body as a transport does.
func send(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, body)
	_ = body.Close()
}

func TestBody_Outcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   func() io.Reader
		length int64
		want   core.Outcome
	}{
		"whole":             {whole, 3, core.Failure},
		"of unknown length": {whole, -1, core.Failure},
		"in memory":         {func() io.Reader { return strings.NewReader("abc") }, 3, core.Failure},
		"a read fails":      {fails, -1, core.Ignored},
		"too short":         {func() io.Reader { return io.LimitReader(strings.NewReader("ab"), 2) }, 3, core.Ignored},
		"too long":          {func() io.Reader { return io.LimitReader(strings.NewReader("abcd"), 4) }, 3, core.Ignored},
		"bytes, too short":  {func() io.Reader { return bytes.NewReader([]byte("ab")) }, 3, core.Ignored},
		"not comparable":    {func() io.Reader { return reads(func([]byte) (int, error) { return 0, io.EOF }) }, -1, core.Failure},
	} {
		for _, maxBuffer := range []int64{0, 2, 100} {
			for _, getBody := range []func() io.Reader{nil, c.body} {
				for _, trailer := range []http.Header{nil, {"X-Sum": nil}} {
					req := upload(t, c.body(), getBody)
					req.ContentLength, req.Trailer = c.length, trailer
					replay := client.NewReplay(req, maxBuffer)
					sent := core.Must(replay.Attempt(req.Context()))
					send(sent.Body)
					require.Equal(t, c.want, client.Classify(sent, nil, errDown), "%s: %d %t", name, maxBuffer, getBody != nil)
					replay.Close()
				}
			}
		}
	}
}

// A transport sends a request again by itself, as net/http does after a connection is lost.
func TestBody_SentAgain(t *testing.T) {
	t.Parallel()
	lost := errors.New("the disk is gone")
	for name, c := range map[string]struct {
		getBody func() (io.ReadCloser, error)
		want    core.Outcome
	}{
		"whole":         {func() (io.ReadCloser, error) { return io.NopCloser(whole()), nil }, core.Failure},
		"in memory":     {func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("abc")), nil }, core.Failure},
		"a read fails":  {func() (io.ReadCloser, error) { return io.NopCloser(fails()), nil }, core.Ignored},
		"too short":     {func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("ab")), nil }, core.Ignored},
		"GetBody fails": {func() (io.ReadCloser, error) { return nil, lost }, core.Ignored},
		"an empty body": {func() (io.ReadCloser, error) { return http.NoBody, nil }, core.Ignored},
	} {
		for times := range 3 {
			req := upload(t, whole(), nil)
			req.GetBody = c.getBody
			replay := client.NewReplay(req, 0)
			sent := core.Must(replay.Attempt(req.Context()))
			var err error
			copied := sent.Clone(t.Context()) // as a transport that signs
			_, _ = copied.Body.Read(make([]byte, 1))
			_ = copied.Body.Close()
			for range times + 1 {
				var body io.ReadCloser
				if body, err = copied.GetBody(); err != nil {
					break
				}
				send(body)
				err = errDown
			}
			require.Equal(t, c.want, client.Classify(sent, nil, err), "%s, %d", name, times)
			if name == "GetBody fails" {
				require.ErrorIs(t, err, lost)
				require.EqualError(t, err, lost.Error())
			}
			replay.Close()
		}
	}
}

// After a GOAWAY, net/http asks for two bodies, and sends the second: see TestPostThatHTTP2Refuses of plugins/retry.
func TestBody_Forgotten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		closed, read bool // the body of the request, and the first one of GetBody
		closes       int  // of the latter
	}{
		"forgotten":       {closed: true, closes: 1},
		"read":            {closed: true, read: true},
		"copies are sent": {},
	} {
		req := upload(t, whole(), nil)
		var bodies []*resiltest.Body
		req.GetBody = func() (io.ReadCloser, error) {
			bodies = append(bodies, resiltest.WrapBody(io.NopCloser(whole())))
			return bodies[len(bodies)-1], nil
		}
		replay := client.NewReplay(req, 0)
		sent := core.Must(replay.Attempt(req.Context()))
		if c.closed {
			_ = sent.Body.Close()
		}
		first := core.Must(sent.GetBody())
		if c.read {
			_, _ = first.Read(make([]byte, 1))
		}
		second := core.Must(sent.GetBody())
		require.Equal(t, []int{c.closes, 0}, []int{bodies[0].Closes(), bodies[1].Closes()}, name)
		for range 2 {
			_ = errors.Join(first.Close(), second.Close())
		}
		require.Equal(t, []int{1, 1}, []int{bodies[0].Closes(), bodies[1].Closes()}, name)
		replay.Close()
	}
}

// A signature reads a body of its own before the request is sent. The one that is read last is the one that is sent.
func TestBody_ReadLast(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second         io.Reader
		readFirst, readSecond int // the order; 0: not read
		want                  core.Outcome
	}{
		"hashed before":        {fails(), whole(), 2, 1, core.Ignored},
		"the hash failed":      {whole(), fails(), 2, 1, core.Failure},
		"second was not read":  {fails(), whole(), 1, 0, core.Ignored},
		"sent again, and fail": {whole(), fails(), 1, 2, core.Ignored},
	} {
		req := upload(t, c.first, func() io.Reader { return c.second })
		replay := client.NewReplay(req, 0)
		sent := core.Must(replay.Attempt(req.Context()))
		second := core.Must(sent.GetBody())
		for turn := 1; turn <= 2; turn++ {
			switch turn {
			case c.readFirst:
				_, _ = io.Copy(io.Discard, sent.Body)
			case c.readSecond:
				_, _ = io.Copy(io.Discard, second)
			}
		}
		require.Equal(t, c.want, client.Classify(sent, nil, errDown), name)
		replay.Close()
	}
}

// A limit strikes after a second. A transport can return any error then.
func TestBody_Limit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body io.Reader
		read bool
		want core.Outcome
	}{
		"no connection":     {whole(), false, core.Failure},
		"sent":              {io.MultiReader(whole()), true, core.Failure},
		"in a Read":         {reads(func([]byte) (int, error) { time.Sleep(time.Hour); return 0, io.EOF }), true, core.Ignored},
		"between two Reads": {reads(func(p []byte) (int, error) { time.Sleep(300 * time.Millisecond); return 1, nil }), true, core.Ignored},
	} {
		for _, err := range []error{limit{}, errDown} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, limit{})
				defer cancel()
				req := upload(t, c.body, nil).WithContext(ctx)
				req.ContentLength = -1
				replay := client.NewReplay(req, 0)
				sent := core.Must(replay.Attempt(ctx))
				if c.read {
					go func() {
						for {
							if _, err := sent.Body.Read(make([]byte, 10)); err != nil {
								return
							}
						}
					}()
				}
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, c.want, client.Classify(sent, nil, err), name)
				require.NoError(t, sent.Body.Close())
				require.Equal(t, c.want, client.Classify(sent, nil, err), "%s, closed", name)
				replay.Close()
				time.Sleep(2 * time.Hour)
			})
		}
	}
}

func TestBody_ReadAfterClose(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	for _, getBody := range []func() io.Reader{nil, whole} {
		req := upload(t, r, getBody)
		replay := client.NewReplay(req, 0)
		sent := core.Must(replay.Attempt(req.Context()))
		require.NoError(t, sent.Body.Close())
		_, err := sent.Body.Read(make([]byte, 1))
		require.Error(t, err)
		require.Equal(t, core.Failure, client.Classify(sent, nil, errDown), "it was closed because of the error")
		replay.Close()
	}
}

// Each attempt of an inner Replay is judged by its own bodies, and the outer one by those of the last attempt.
func TestBody_Nested(t *testing.T) {
	t.Parallel()
	next := []io.Reader{whole(), fails()}
	req := upload(t, fails(), func() io.Reader {
		body := next[0]
		next = next[1:]
		return body
	})
	outer := client.NewReplay(req, 0)
	defer outer.Close()
	middle := core.Must(outer.Attempt(req.Context()))
	inner := client.NewReplay(middle, 0)
	defer inner.Close()
	judged := func(req *http.Request) core.Outcome { return client.Classify(req, nil, io.EOF) }
	one := core.Must(inner.Attempt(middle.Context()))
	require.Same(t, middle, one, "it is observed already")
	send(one.Body)
	require.NoError(t, inner.Ready())
	require.Equal(t, core.Ignored, judged(one), "the next body was not read")
	two := core.Must(inner.Attempt(t.Context()))
	require.Equal(t, core.Failure, judged(two), "nothing was read")
	send(two.Body)
	require.Equal(t, core.Failure, judged(two))
	require.Equal(t, core.Failure, judged(middle))
	send(core.Must(two.GetBody()))
	require.Equal(t, core.Ignored, judged(middle))

	// A GetBody that fails after the server did is not the cause of that.
	req = upload(t, whole(), nil)
	req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("the disk is gone") }
	outer = client.NewReplay(req, 0)
	middle = core.Must(outer.Attempt(req.Context()))
	inner = client.NewReplay(middle, 0)
	send(core.Must(inner.Attempt(t.Context())).Body)
	err := inner.Ready()
	require.EqualError(t, err, "client: GetBody: the disk is gone")
	require.Equal(t, core.Failure, client.Classify(middle, nil, errors.Join(err, errDown)))
}

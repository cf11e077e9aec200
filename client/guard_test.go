package client_test

import (
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
)

// fetching returns a request whose first body is first, and whose GetBody is getBody.
func fetching(t *testing.T, first io.Reader, getBody func() (io.ReadCloser, error)) *http.Request {
	t.Helper()
	req := request(t, http.MethodPut, first)
	req.ContentLength, req.GetBody = 3, getBody
	return req
}

// fetched returns a GetBody of bodies.
func fetched(body func() io.Reader) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(body()), nil }
}

func whole() io.Reader { return io.LimitReader(strings.NewReader("abc"), 3) }

func fails() io.Reader { return io.MultiReader(strings.NewReader("a"), iotest.ErrReader(errDown)) }

// transports are what a RoundTripper can do with the bodies of a request.
var transports = map[string]func(t *testing.T, req *http.Request) error{ //nolint:gochecknoglobals // a constant
	"sends again": func(_ *testing.T, req *http.Request) error {
		_, _ = req.Body.Read(make([]byte, 1))
		_ = req.Body.Close()
		body, err := req.GetBody()
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, body)
		_ = body.Close()
		return errDown
	},
	"sends again, twice": func(_ *testing.T, req *http.Request) error {
		_ = req.Body.Close()
		for range 2 {
			body, err := req.GetBody()
			if err != nil {
				return err
			}
			_, _ = io.Copy(io.Discard, body)
			_ = body.Close()
		}
		return errDown
	},
	"a copy of the request": func(_ *testing.T, req *http.Request) error {
		req = req.Clone(req.Context())
		_ = req.Body.Close()
		body, err := req.GetBody()
		if err != nil {
			return err
		}
		req.Body = body
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
		return errDown
	},
}

func TestABodyThatATransportGetsByItselfIsObserved(t *testing.T) {
	t.Parallel()
	lost := errors.New("the disk is gone")
	for name, c := range map[string]struct {
		getBody func() (io.ReadCloser, error)
		want    core.Outcome
	}{
		"whole":           {fetched(whole), core.Failure},
		"in memory":       {fetched(func() io.Reader { return strings.NewReader("abc") }), core.Failure},
		"a read fails":    {fetched(fails), core.Ignored},
		"too short":       {fetched(func() io.Reader { return strings.NewReader("ab") }), core.Ignored},
		"too long":        {fetched(func() io.Reader { return strings.NewReader("abcd") }), core.Ignored},
		"GetBody fails":   {func() (io.ReadCloser, error) { return nil, lost }, core.Ignored},
		"an empty body":   {func() (io.ReadCloser, error) { return http.NoBody, nil }, core.Ignored},
		"wrapped, failed": {func() (io.ReadCloser, error) { return nil, errors.Join(lost, errDown) }, core.Ignored},
	} {
		for which, send := range transports {
			for _, trailer := range []http.Header{nil, {"X-Sum": nil}} {
				req := fetching(t, whole(), c.getBody)
				req.Trailer = trailer
				replay := client.NewReplay(req, -1)
				sent, err := replay.Attempt(req.Context())
				require.NoError(t, err)
				err = send(t, sent)
				if name == "GetBody fails" {
					require.ErrorIs(t, err, lost)
					require.EqualError(t, err, lost.Error())
				}
				require.Equal(t, c.want, client.Classify(t.Context(), nil, client.Explain(sent, err)), "%s: %s: trailer %v", name, which, trailer)
				replay.Close()
			}
		}
	}
}

// A signature reads a body of its own before, or while, the request is sent.
func TestTheBodyThatIsReadLastIsJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second io.Reader
		read          func(first, second io.Reader)
		want          core.Outcome
	}{
		"it was hashed before": {fails(), whole(), func(first, second io.Reader) {
			_, _ = io.Copy(io.Discard, second)
			_, _ = io.Copy(io.Discard, first)
		}, core.Ignored},
		"the hash failed": {whole(), fails(), func(first, second io.Reader) {
			_, _ = io.Copy(io.Discard, second)
			_, _ = io.Copy(io.Discard, first)
		}, core.Failure},
		"the second was not read": {fails(), whole(), func(first, _ io.Reader) {
			_, _ = io.Copy(io.Discard, first)
		}, core.Ignored},
		"sent again": {whole(), fails(), func(first, second io.Reader) {
			_, _ = io.Copy(io.Discard, first)
			_, _ = io.Copy(io.Discard, second)
		}, core.Ignored},
	} {
		req := fetching(t, c.first, fetched(func() io.Reader { return c.second }))
		replay := client.NewReplay(req, -1)
		sent := core.Must(replay.Attempt(req.Context()))
		second := core.Must(sent.GetBody())
		c.read(sent.Body, second)
		require.Equal(t, c.want, client.Classify(t.Context(), nil, client.Explain(sent, errDown)), name)
		replay.Close()
	}
}

func TestALimitThatStrikesInABodyThatATransportGotIsTheFaultOfTheCaller(t *testing.T) {
	t.Parallel()
	for waited, want := range map[time.Duration]core.Outcome{0: core.Ignored, 500 * time.Millisecond: core.Ignored} {
		synctest.Test(t, func(t *testing.T) {
			req := fetching(t, whole(), fetched(func() io.Reader {
				return reads(func(p []byte) (int, error) {
					time.Sleep(waited)
					return len(p), nil
				})
			}))
			replay := client.NewReplay(req, -1)
			sent := core.Must(replay.Attempt(req.Context()))
			_, _ = sent.Body.Read(make([]byte, 1))
			require.NoError(t, sent.Body.Close())
			body := core.Must(sent.GetBody())
			_, err := body.Read(make([]byte, 2))
			require.NoError(t, err)
			time.Sleep(time.Second - waited) // the write
			require.NoError(t, body.Close())
			require.Equal(t, want, client.Classify(t.Context(), nil, client.Explain(sent, limit{})), waited)
		})
	}
}

// Each attempt of an inner Replay is judged by its own bodies, and the outer one by those
// of the last attempt.
func TestAttemptsOfAnInnerReplayAreJudgedByTheirOwnBodies(t *testing.T) {
	t.Parallel()
	next := []io.Reader{whole(), fails()}
	req := fetching(t, fails(), fetched(func() io.Reader {
		body := next[0]
		next = next[1:]
		return body
	}))
	outer := client.NewReplay(req, -1)
	defer outer.Close()
	middle := core.Must(outer.Attempt(req.Context()))
	inner := client.NewReplay(middle, 0)
	defer inner.Close()
	judged := func(req *http.Request) core.Outcome {
		return client.Classify(t.Context(), nil, client.Explain(req, io.EOF))
	}
	send := func(body io.ReadCloser) {
		_, _ = io.Copy(io.Discard, body)
		require.NoError(t, body.Close())
	}
	one := core.Must(inner.Attempt(t.Context()))
	send(one.Body)
	require.Equal(t, core.Ignored, judged(one))
	require.Equal(t, core.Ignored, judged(middle))
	two := core.Must(inner.Attempt(t.Context()))
	require.Equal(t, core.Failure, judged(two), "nothing was read")
	send(two.Body)
	require.Equal(t, core.Failure, judged(two))
	require.Equal(t, core.Failure, judged(middle))
	send(core.Must(two.GetBody()))
	require.Equal(t, core.Ignored, judged(two))
	require.Equal(t, core.Ignored, judged(middle))
}

// A GetBody that fails after the server did is not the cause of that.
func TestAGetBodyThatFailsForTheNextAttemptDoesNotExcuseTheServer(t *testing.T) {
	t.Parallel()
	lost := errors.New("the disk is gone")
	req := fetching(t, whole(), func() (io.ReadCloser, error) { return nil, lost })
	outer := client.NewReplay(req, -1)
	defer outer.Close()
	middle := core.Must(outer.Attempt(req.Context()))
	inner := client.NewReplay(middle, 0)
	defer inner.Close()
	one := core.Must(inner.Attempt(t.Context()))
	_, _ = io.Copy(io.Discard, one.Body)
	_ = one.Body.Close()
	err := inner.Prepare()
	require.ErrorIs(t, err, lost)
	require.Equal(t, core.Failure, client.Classify(t.Context(), nil, client.Explain(middle, errors.Join(err, errDown))))
}

func TestABodyOfAnInnerAttemptThatPanicsIsClosed(t *testing.T) {
	t.Parallel()
	closes := 0
	req := fetching(t, whole(), func() (io.ReadCloser, error) {
		return closing{strings.NewReader("abc"), &closes}, nil
	})
	outer := client.NewReplay(req, -1)
	inner := client.NewReplay(core.Must(outer.Attempt(req.Context())), 0)
	_ = core.Must(inner.Attempt(t.Context())).Body.Close()
	core.Must(inner.Attempt(context.WithValue(t.Context(), markedKey{}, 2)))
	inner.Abort()
	outer.Abort()
	require.Equal(t, 1, closes)
}

type closing struct {
	io.Reader
	closes *int
}

func (c closing) Close() error { *c.closes++; return nil }

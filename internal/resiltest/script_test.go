package resiltest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/resiltest"
)

// A script as a transport does what net/http does with the same script as a server.
func TestReplyIsTheSameOnEveryWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply  resiltest.Reply
		status int
		body   string
		err    error
		takes  time.Duration
	}{
		"zero":                {resiltest.Reply{}, 200, "", nil, 0},
		"status and body":     {resiltest.Reply{Status: 503, Body: "sorry"}, 503, "sorry", nil, 0},
		"large":               {resiltest.Reply{Body: strings.Repeat("x", 1<<20)}, 200, strings.Repeat("x", 1<<20), nil, 0},
		"no content":          {resiltest.Reply{Status: 204, Body: "no"}, 204, "", nil, 0},
		"delay":               {resiltest.Reply{Delay: time.Hour, Body: "late"}, 200, "late", nil, time.Hour},
		"delay, for ever":     {resiltest.Reply{Delay: -1}, 0, "", context.DeadlineExceeded, 24 * time.Hour},
		"stall":               {resiltest.Reply{Body: "some", Stall: time.Hour}, 200, "some", nil, time.Hour},
		"stall, for ever":     {resiltest.Reply{Body: "some", Stall: -1}, 200, "some", context.DeadlineExceeded, 24 * time.Hour},
		"stall of nothing":    {resiltest.Reply{Stall: -1}, 200, "", context.DeadlineExceeded, 24 * time.Hour},
		"stall, then reset":   {resiltest.Reply{Body: "some", Stall: time.Hour, Reset: true}, 200, "some", syscall.ECONNRESET, time.Hour},
		"pace":                {resiltest.Reply{Body: "slow", Pace: time.Minute}, 200, "slow", nil, 4 * time.Minute},
		"pace, for ever":      {resiltest.Reply{Body: "slow", Pace: -1}, 200, "", context.DeadlineExceeded, 24 * time.Hour},
		"reset":               {resiltest.Reply{Reset: true}, 0, "", syscall.ECONNRESET, 0},
		"reset late":          {resiltest.Reply{Delay: time.Hour, Reset: true}, 0, "", syscall.ECONNRESET, time.Hour},
		"reset in the body":   {resiltest.Reply{Body: "half", Reset: true}, 200, "half", syscall.ECONNRESET, 0},
		"reset after headers": {resiltest.Reply{Status: 500, Reset: true}, 500, "", syscall.ECONNRESET, 0},
		"too short":           {resiltest.Reply{Body: "half", Header: http.Header{"Content-Length": {"8"}}}, 200, "half", io.ErrUnexpectedEOF, 0},
		"stalled with length": {resiltest.Reply{Body: "half", Stall: time.Hour, Header: http.Header{"Content-Length": {"8"}}}, 200, "half", io.ErrUnexpectedEOF, time.Hour},
		"unread":              {resiltest.Reply{Unread: true, Body: "early"}, 200, "early", nil, 0},
	} {
		for way, serve := range map[string]func(*testing.T, *resiltest.Script) (http.RoundTripper, string){
			"transport": func(_ *testing.T, s *resiltest.Script) (http.RoundTripper, string) { return s, "http://server.test" },
			"network": func(t *testing.T, s *resiltest.Script) (http.RoundTripper, string) {
				t.Helper()
				srv := resiltest.Serve(t, resiltest.NewNetwork(), s)
				return srv.Transport(), srv.URL
			},
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					script := resiltest.NewScript(tc.reply)
					rt, url := serve(t, script)
					ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
					defer cancel()
					start := time.Now()
					status, body, err := fetch(ctx, t, resiltest.Count(t, rt), url)
					require.Equal(t, tc.takes, time.Since(start))
					require.Equal(t, tc.status, status)
					require.Equal(t, tc.body, body)
					require.ErrorIs(t, err, tc.err)
					require.Equal(t, 1, script.Calls())
				})
			})
		}
	}
}

func TestScriptKeepsTheContractOfRoundTripper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cancelled, cancel := context.WithCancelCause(t.Context())
		cancel(errBoom)
		for name, tc := range map[string]struct {
			ctx   context.Context
			reply resiltest.Reply
			read  int64
			err   error
		}{
			"answer":       {t.Context(), resiltest.Reply{}, 5, nil},
			"unread":       {t.Context(), resiltest.Reply{Unread: true}, 0, nil},
			"error":        {t.Context(), resiltest.Reply{Err: errBoom}, 5, errBoom},
			"reset":        {t.Context(), resiltest.Reply{Reset: true}, 5, syscall.ECONNRESET},
			"over before":  {cancelled, resiltest.Reply{}, 0, errBoom},
			"error, early": {t.Context(), resiltest.Reply{Err: errBoom, Unread: true}, 0, errBoom},
		} {
			s, body := resiltest.NewScript(tc.reply), resiltest.NewBody("order")
			req, err := http.NewRequestWithContext(tc.ctx, http.MethodPost, "http://a.test/x?y=1", body)
			require.NoError(t, err)
			req.Header.Set("Name", "value")
			resp, err := s.RoundTrip(req)
			require.ErrorIs(t, err, tc.err, name)
			require.Equal(t, tc.read, body.BytesRead(), name)
			require.Equal(t, 1, body.Closes(), name)
			require.Same(t, body, req.Body, "the request is not changed")
			a := s.Attempts()[0]
			require.Equal(t, "order"[:tc.read], a.Body, name)
			require.Equal(t, "value", a.Request.Header.Get("Name"))
			require.Equal(t, "y=1", a.Request.URL.RawQuery)
			require.Nil(t, a.Request.Body)
			if err == nil {
				require.Same(t, req, resp.Request)
				require.Zero(t, a.Response.Closes())
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close())
				require.Equal(t, []int{2}, s.Closes())
				_, err = resp.Body.Read(make([]byte, 1))
				require.ErrorContains(t, err, "read on closed response body")
			}
		}

		s, body := resiltest.NewScript(resiltest.Reply{Panic: "base"}), resiltest.NewBody("order")
		req := request(t.Context(), t, http.MethodPost, "http://a.test/")
		req.Body = body
		require.PanicsWithValue(t, "base", func() { _, _ = s.RoundTrip(req) })
		require.Equal(t, 1, body.Closes(), "closed before a panic")
		require.PanicsWithValue(t, "base", func() { s.ServeHTTP(httptest.NewRecorder(), request(t.Context(), t, http.MethodGet, "/")) })
	})
}

func TestScriptRequestBodyThatStallsEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		pipe, writer := io.Pipe()
		body := resiltest.WrapBody(pipe)
		go func() { _, _ = io.WriteString(writer, "some") }()
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://a.test/", body)
		require.NoError(t, err)
		s := resiltest.NewScript()
		_, err = s.RoundTrip(req)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, body.Closes())
		require.Equal(t, "some", s.Attempts()[0].Body)
		require.ErrorIs(t, s.Attempts()[0].Request.Context().Err(), context.DeadlineExceeded)
	})
}

func TestScriptCloseEndsARead(t *testing.T) {
	t.Parallel()
	for _, reply := range []resiltest.Reply{{Stall: -1}, {Body: "x", Pace: -1}} {
		synctest.Test(t, func(t *testing.T) {
			resp, err := resiltest.NewScript(reply).RoundTrip(request(t.Context(), t, http.MethodGet, "http://a.test/"))
			require.NoError(t, err)
			time.AfterFunc(time.Hour, func() { _ = resp.Body.Close() })
			_, err = resp.Body.Read(make([]byte, 1))
			require.ErrorContains(t, err, "read on closed response body")
		})
	}
}

func TestScriptEndlessAndHEAD(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := resiltest.NewScript()
		srv := resiltest.Serve(t, resiltest.NewNetwork(), s)
		for _, rt := range []http.RoundTripper{s, srv.Transport()} {
			s.Set(resiltest.Reply{Endless: true, Body: "abc"}, resiltest.Reply{Endless: true})
			for _, want := range []string{"abcabcab", "xxxxxxxx"} {
				resp, err := rt.RoundTrip(request(t.Context(), t, http.MethodGet, srv.URL))
				require.NoError(t, err)
				text, err := io.ReadAll(io.LimitReader(resp.Body, 8))
				require.NoError(t, err)
				require.Equal(t, want, string(text))
				_, err = io.CopyN(io.Discard, resp.Body, 1<<20)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			}
			s.Set(resiltest.Reply{Body: "hello"})
			resp, err := rt.RoundTrip(request(t.Context(), t, http.MethodHead, srv.URL))
			require.NoError(t, err)
			require.EqualValues(t, 5, resp.ContentLength)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Empty(t, text)
			require.NoError(t, resp.Body.Close())
		}
	})
}

func TestScriptTheLastReplyRepeatsAndSetBeginsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := resiltest.NewScript(resiltest.Reply{Status: 500}, resiltest.Reply{Status: 501})
		statuses := func(n int) (all []int) {
			for range n {
				all = append(all, get(t, s, "http://a.test"))
				time.Sleep(time.Second)
			}
			return all
		}
		require.Nil(t, s.Waits())
		require.Equal(t, []int{500, 501, 501}, statuses(3))
		s.Set(resiltest.Reply{Status: 502}, resiltest.Reply{Status: 503})
		require.Equal(t, []int{502, 503, 503}, statuses(3))
		s.Set()
		require.Equal(t, []int{200}, statuses(1))
		require.Equal(t, 7, s.Calls())
		require.Equal(t, slices.Repeat([]time.Duration{time.Second}, 6), s.Waits())
	})
}

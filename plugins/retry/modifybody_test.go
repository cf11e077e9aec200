package retry_test

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/retry"
)

// fragile is a body that cannot be read once it is closed.
type fragile struct {
	io.Reader
	closed int
}

func (f *fragile) Read(p []byte) (int, error) {
	if f.closed > 0 {
		return 0, errors.New("read of a closed body")
	}
	return f.Reader.Read(p)
}

func (f *fragile) Close() error { f.closed++; return nil }

// wrapping is a ModifyRequest that wraps the body, as for signing.
func wrapping(req *http.Request, _ int) error {
	req.Body = struct{ io.ReadCloser }{req.Body}
	return nil
}

func TestABodyThatModifyRequestWrapsIsSentAndClosedOnceAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, getBody := range []bool{true, false} {
		for _, trailer := range []bool{true, false} {
			var bodies []*fragile
			made := func() io.ReadCloser {
				bodies = append(bodies, &fragile{Reader: strings.NewReader("text")})
				return bodies[len(bodies)-1]
			}
			req := request(t.Context(), http.MethodPut, made())
			if getBody {
				req.GetBody = func() (io.ReadCloser, error) { return made(), nil }
			}
			if trailer {
				req.Trailer = http.Header{"X-Sum": {"1"}}
			}
			var sent []string
			resp, err := do(t, quick(retry.Config{MaxBuffer: 100, ModifyRequest: wrapping}), roundTrip(func(req *http.Request) (*http.Response, error) {
				text, err := io.ReadAll(req.Body)
				require.NoError(t, err)
				sent = append(sent, string(text))
				_, _ = req.Body.Close(), req.Body.Close()
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: req}, nil
			}), req)
			require.NoError(t, err)
			require.Equal(t, 503, resp.StatusCode)
			require.Equal(t, []string{"text", "text", "text"}, sent)
			for _, b := range bodies {
				require.Equal(t, 1, b.closed)
			}
		}
	}
}

func TestAFailingBodyThatModifyRequestWrapsIsNotSentAgain(t *testing.T) {
	t.Parallel()
	attempts := 0
	req := request(t.Context(), http.MethodPut, io.MultiReader(strings.NewReader("text"), failing{}))
	_, err := do(t, quick(retry.Config{MaxAttempts: 5, MaxBuffer: 100, ModifyRequest: wrapping}), roundTrip(func(req *http.Request) (*http.Response, error) {
		if attempts++; attempts == 1 {
			return nil, errors.New("reset")
		}
		_, err := io.ReadAll(req.Body)
		_ = req.Body.Close()
		return nil, err
	}), req)
	require.ErrorIs(t, err, errDisk)
	require.NotContains(t, err.Error(), "was not repeated")
	require.Equal(t, 2, attempts)
}

func TestABodyOfModifyRequestIsClosedIfItIsNotSent(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{true, false} {
		old, fresh := &fragile{Reader: strings.NewReader("text")}, &fragile{Reader: strings.NewReader("new")}
		broken, attempts := errors.New("no key"), 0
		p := quick(retry.Config{MaxBuffer: 100, ModifyRequest: func(req *http.Request, _ int) error {
			req.Body = fresh
			if panics {
				return nil
			}
			return broken
		}})
		send := func() {
			_, err := p.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
				if attempts++; attempts == 2 {
					panic("transport")
				}
				return nil, errors.New("reset")
			})).RoundTrip(request(t.Context(), http.MethodPut, old))
			require.ErrorIs(t, err, broken)
		}
		if panics {
			require.Panics(t, send)
		} else {
			send()
		}
		require.Equal(t, []int{1, 1}, []int{old.closed, fresh.closed}, panics)
	}
}

var errDisk = errors.New("disk failed")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDisk }

func TestABodyOfModifyRequestIsClosedWhereAFunctionOfTheUserDoesNotReturn(t *testing.T) {
	t.Parallel()
	body := &fragile{Reader: strings.NewReader("text")}
	replacing := func(req *http.Request, _ int) error {
		req.Body = body
		return errors.New("it cannot be signed")
	}
	for name, cfg := range map[string]retry.Config{
		"a panic in it": {ModifyRequest: func(req *http.Request, retry int) error { panic(replacing(req, retry)) }},
		"a listener that ends its goroutine": {
			ModifyRequest: replacing,
			Registry: listened(func(verdict string, _ registry.Event) {
				if verdict != "retried" {
					runtime.Goexit()
				}
			}),
		},
	} {
		body.closed = 0
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }()
			_, _ = do(t, quick(cfg), roundTrip(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: req}, nil
			}), request(t.Context(), http.MethodPut, strings.NewReader("text")))
		}()
		<-ended
		require.Equal(t, 1, body.closed, name)
	}
}

func TestABodyThatModifyRequestAddsIsClosedOnceThoughTheTransportPanics(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.Reader{"instead of another": strings.NewReader("text"), "instead of none": nil} {
		added, calls := &fragile{Reader: strings.NewReader("added")}, 0
		p := quick(retry.Config{ModifyRequest: func(req *http.Request, _ int) error {
			req.Body = added
			return nil
		}})
		require.PanicsWithValue(t, "transport", func() {
			_, _ = do(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
				if calls++; calls == 1 {
					return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: req}, nil
				}
				_ = req.Body.Close()
				panic("transport")
			}), request(t.Context(), http.MethodPut, body))
		}, name)
		require.Equal(t, 1, added.closed, name)
	}
}

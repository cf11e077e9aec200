package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

func TestLimitEndsARequestThatHangs(t *testing.T) {
	t.Parallel()
	ends := map[string]http.RoundTripper{
		"returns the cause": after(time.Hour, ""),
		"returns Canceled":  stub(func(req *http.Request) (*http.Response, error) { <-req.Context().Done(); return nil, context.Canceled }),
		"returns ctx.Err": stub(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}),
		"wraps a cancel": stub(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, fmt.Errorf("dial: %w", context.Canceled)
		}),
		"wraps the cause": stub(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, fmt.Errorf("dial: %w", context.Cause(req.Context()))
		}),
		"an error of its own": stub(func(req *http.Request) (*http.Response, error) { <-req.Context().Done(); return nil, errBoom }),
	}
	for name, next := range ends {
		for _, kind := range []string{"total", "attempt"} {
			t.Run(kind+", transport "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					defer takes(t, time.Second)()
					plugin := newKind(t, kind, timeout.Config{Limit: time.Second})
					_, err := get(t, t.Context(), plugin.Transport(next))
					requireTimeout(t, err, kind)
					require.Equal(t, timeout.Stats{TimedOut: 1}, plugin.Stats())
				})
			})
		}
	}
}

func newKind(t *testing.T, kind string, cfg timeout.Config) *timeout.Client {
	t.Helper()
	if kind == "total" {
		return core.Must(timeout.NewTotal(cfg))
	}
	return core.Must(timeout.NewAttempt(cfg))
}

func TestBody(t *testing.T) {
	t.Parallel()
	const lasts = 10 // seconds
	for _, tt := range []struct {
		name string
		kind string
		cfg  timeout.Config
		cut  bool
	}{
		{"Peers67: an attempt does not cut a body that trickles", "attempt", timeout.Config{}, false},
		{"an attempt with CutBody does", "attempt", timeout.Config{CutBody: true}, true},
		{"a total does", "total", timeout.Config{}, true},
		{"a total with HeadersOnly does not", "total", timeout.Config{HeadersOnly: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tt.cfg.Limit = 2500 * time.Millisecond
				plugin := newKind(t, tt.kind, tt.cfg)
				inner := trickle(lasts)
				resp, err := get(t, t.Context(), plugin.Transport(inner))
				require.NoError(t, err)
				start := time.Now()
				text, err := io.ReadAll(resp.Body)
				if !tt.cut {
					require.NoError(t, err)
					require.Len(t, text, lasts)
					require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats())
				} else {
					requireTimeout(t, err, tt.kind)
					require.Len(t, text, 2)
					require.Equal(t, 2500*time.Millisecond, time.Since(start))
					_, again := resp.Body.Read(make([]byte, 1))
					require.Equal(t, err, again, "the error stays")
					require.Equal(t, timeout.Stats{TimedOut: 1}, plugin.Stats(), "counted once")
				}
				require.NoError(t, resp.Body.Close())
				require.Equal(t, []int{1}, inner.Closes())
				require.Error(t, contextOf(inner).Err(), "released at the end of the body")
			})
		})
	}
}

func TestBodyIsReleasedWhenItIsClosedOrRead(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(io.ReadCloser) error{
		"closed": io.ReadCloser.Close,
		"read":   func(body io.ReadCloser) error { _, err := io.Copy(io.Discard, body); return err },
	} {
		for _, kind := range []string{"total", "attempt"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					plugin := newKind(t, kind, timeout.Config{})
					inner := after(0, "text")
					resp, err := get(t, t.Context(), plugin.Transport(inner))
					require.NoError(t, err)
					require.NoError(t, contextOf(inner).Err())
					require.NoError(t, end(resp.Body))
					require.Equal(t, context.Canceled, contextOf(inner).Err())
					require.NoError(t, resp.Body.Close())
					require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats())
					time.Sleep(time.Hour)
					require.Equal(t, context.Canceled, context.Cause(contextOf(inner)), "the limit does not strike any more")
				})
			})
		}
	}
}

func TestNoBodyIsReleasedAtOnce(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.ReadCloser{"nil": nil, "NoBody": http.NoBody} {
		for _, kind := range []string{"total", "attempt"} {
			var sent *http.Request
			inner := stub(func(req *http.Request) (*http.Response, error) { sent = req; return answer(req, body), nil })
			plugin := newKind(t, kind, timeout.Config{})
			resp, err := get(t, t.Context(), plugin.Transport(inner))
			require.NoError(t, err, name)
			require.Equal(t, body, resp.Body)
			require.Error(t, sent.Context().Err())
			require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats())
		}
	}
}

// A total that struck while nobody read is told when the body is closed.
func TestBodyThatIsClosedTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewTotal(timeout.Config{Limit: time.Second}))
		resp, err := get(t, t.Context(), plugin.Transport(after(0, "text")))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, timeout.Stats{TimedOut: 1}, plugin.Stats())
	})
}

func TestFailureIsPassedOn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"total", "attempt"} {
		plugin := newKind(t, kind, timeout.Config{})
		inner := resiltest.NewScript(resiltest.Reply{Err: errBoom})
		_, err := get(t, t.Context(), plugin.Transport(inner))
		require.Equal(t, errBoom, err)
		require.Equal(t, timeout.Stats{Failed: 1}, plugin.Stats())
		require.Error(t, contextOf(inner).Err(), "released")

		resp, err := get(t, t.Context(), plugin.Transport(resiltest.NewScript(resiltest.Reply{Body: "half", Reset: true})))
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.Equal(t, "half", string(text))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.NotErrorIs(t, err, timeout.ErrTimeout, "an error of the body in time is its own")
	}
}

func TestEndOfTheCallersContextIsTheCallers(t *testing.T) {
	t.Parallel()
	gone := errors.New("the user left")
	for _, kind := range []string{"total", "attempt"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				plugin := newKind(t, kind, timeout.Config{Limit: time.Minute})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(gone) })
				_, err := get(t, ctx, plugin.Transport(after(time.Hour, "")))
				require.Equal(t, gone, err)

				near, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				inner := after(time.Hour, "")
				_, err = get(t, near, plugin.Transport(inner))
				require.Equal(t, context.DeadlineExceeded, err)
				require.Equal(t, near, contextOf(inner), "no context of ours where the caller's ends sooner")
				require.Equal(t, timeout.Stats{Canceled: 2}, plugin.Stats())

				// while the body is read
				ctx, cancel = context.WithCancelCause(t.Context())
				time.AfterFunc(1500*time.Millisecond, func() { cancel(gone) })
				resp, err := get(t, ctx, plugin.Transport(trickle(9)))
				require.NoError(t, err)
				_, err = io.ReadAll(resp.Body)
				require.Equal(t, gone, err)
			})
		})
	}
}

// The transport answered, but only after the limit had ended the request: its body
// can't be read.
func TestResponseThatComesTooLateIsClosed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"total", "attempt"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				body := resiltest.NewBody("x")
				plugin := newKind(t, kind, timeout.Config{Limit: time.Second, HeadersOnly: kind == "total"})
				resp, err := get(t, t.Context(), plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
					time.Sleep(2 * time.Second)
					return answer(req, body), nil
				})))
				require.Nil(t, resp)
				requireTimeout(t, err, kind)
				require.Equal(t, 1, body.Closes())
			})
		})
	}
}

type duplex struct {
	io.Reader
	io.Writer
	closed bool
}

func (d *duplex) Close() error { d.closed = true; return nil }

func TestUpgradedConnectionIsNeverCut(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"total", "attempt"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var written strings.Builder
				body := &duplex{Reader: strings.NewReader("hello"), Writer: &written}
				inner := resiltest.NewScript(resiltest.Reply{Do: func(req *http.Request) (*http.Response, error) {
					resp := answer(req, body)
					resp.StatusCode = http.StatusSwitchingProtocols
					return resp, nil
				}})
				plugin := newKind(t, kind, timeout.Config{Limit: time.Second})
				resp, err := get(t, t.Context(), plugin.Transport(inner))
				require.NoError(t, err)
				time.Sleep(time.Hour)
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, "hello", string(text))
				_, err = io.WriteString(resp.Body.(io.Writer), "and back")
				require.NoError(t, err)
				require.Equal(t, "and back", written.String())
				require.NoError(t, contextOf(inner).Err(), "the other direction may go on")
				require.NoError(t, resp.Body.Close())
				require.True(t, body.closed)
				require.Error(t, contextOf(inner).Err())
			})
		})
	}
}

func TestPanicOfTheTransportReleasesTheContext(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"total", "attempt"} {
		inner := resiltest.NewScript(resiltest.Reply{Panic: "boom"})
		plugin := newKind(t, kind, timeout.Config{})
		require.PanicsWithValue(t, "boom", func() { _, _ = get(t, t.Context(), plugin.Transport(inner)) })
		require.Error(t, contextOf(inner).Err())
	}
}

func TestDeadlineIsSeenUntilTheLimitIsLifted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		far, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		plugin := core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Second}))
		inner := resiltest.NewScript(resiltest.Reply{Do: func(req *http.Request) (*http.Response, error) {
			deadline, ok := req.Context().Deadline()
			require.True(t, ok)
			require.Equal(t, now.Add(time.Second), deadline)
			return after(0, "text").RoundTrip(req)
		}})
		resp, err := get(t, far, plugin.Transport(inner))
		require.NoError(t, err)
		deadline, _ := contextOf(inner).Deadline()
		require.Equal(t, now.Add(time.Hour), deadline)
		require.NoError(t, resp.Body.Close())
	})
}

// A limit is there to tell a slow server: a breaker outside of an attempt counts
// it, and one inside of a total does too.
func TestBreakerSeesAFailure(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"total", "attempt"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var inside core.Outcome
				inner := newKind(t, kind, timeout.Config{Limit: time.Second, HeadersOnly: kind == "total"}).Transport(stub(func(req *http.Request) (*http.Response, error) {
					resp, err := after(time.Hour, "").RoundTrip(req)
					inside = client.Classify(req.Context(), resp, err)
					return resp, err
				}))
				resp, err := get(t, t.Context(), inner)
				require.Equal(t, core.Failure, client.Classify(t.Context(), resp, err))
				require.Equal(t, core.Failure, inside)
			})
		})
	}
}

func TestTotalBoundsAttemptsAndTheirWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 7*time.Second)() // 2 + 3 + 2: another wait of 3 would reach 10
		total := core.Must(timeout.NewTotal(timeout.Config{Limit: 10 * time.Second}))
		attempt := core.Must(timeout.NewAttempt(timeout.Config{Limit: 2 * time.Second}))
		retries := core.Must(retry.New(retry.Config{MaxAttempts: 9, Backoff: backoff.Constant{Delay: 3 * time.Second}}))
		sent := 0
		inner := attempt.Transport(stub(func(req *http.Request) (*http.Response, error) {
			sent++
			return after(time.Hour, "").RoundTrip(req)
		}))
		_, err := get(t, t.Context(), total.Transport(stub(func(req *http.Request) (*http.Response, error) {
			return retry.Do(req.Context(), retries, func(ctx context.Context) (*http.Response, error) {
				return inner.RoundTrip(req.WithContext(ctx))
			})
		})))
		require.Equal(t, 2, sent)
		requireTimeout(t, err, "attempt")
		require.ErrorIs(t, err, retry.ErrExhausted, "a wait that reaches the total is not begun")
		require.Equal(t, timeout.Stats{Failed: 1}, total.Stats())
		require.Equal(t, timeout.Stats{TimedOut: 2}, attempt.Stats())
	})
}

func TestAttemptTimesOutAndTheNextOneSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		httpClient, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) == 1 {
				<-r.Context().Done() // five seconds, were it not for the client
				return
			}
			_, _ = io.WriteString(w, "fine")
		}))
		attempt := core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Second}))
		rt := attempt.Transport(httpClient.Transport)
		start := time.Now()
		_, err := get(t, t.Context(), rt)
		requireTimeout(t, err, "attempt")
		require.Equal(t, time.Second, time.Since(start))
		resp, err := get(t, t.Context(), rt)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "fine", string(text))
		require.NoError(t, resp.Body.Close())
	})
}

func TestOverRealTransportBodyIsCutWithATimeoutThatNetHTTPSees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		httpClient, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/body" {
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}))
		total := core.Must(timeout.NewTotal(timeout.Config{Limit: time.Second}))
		httpClient.Transport = client.New(httpClient.Transport, total)
		start := time.Now()
		_, err := httpClient.Get("http://example.test/headers")
		var ue *url.Error
		require.ErrorAs(t, err, &ue)
		require.True(t, ue.Timeout())
		require.ErrorIs(t, err, timeout.ErrTimeout)
		require.Equal(t, time.Second, time.Since(start))

		resp, err := httpClient.Get("http://example.test/body")
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		requireTimeout(t, err, "total")
		require.Equal(t, 2*time.Second, time.Since(start))
		require.NoError(t, resp.Body.Close())
	})
}

// Peers71: bubbles do not end while a goroutine is left.
func TestNoGoroutineIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		httpClient, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
		}))
		plugins := []client.Plugin{
			core.Must(timeout.NewTotal(timeout.Config{Limit: 3 * time.Second})),
			core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Second})),
		}
		httpClient.Transport = client.New(httpClient.Transport, plugins...)
		for i := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			path := "/"
			if i%4 == 1 {
				path = "/slow"
			}
			if i%8 == 1 {
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test"+path, nil)
			require.NoError(t, err)
			resp, err := httpClient.Do(req)
			if err == nil {
				if i%4 == 2 {
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, err)
				}
				require.NoError(t, resp.Body.Close())
			}
			if i%2 == 0 {
				cancel()
			} else {
				defer cancel()
			}
		}
	})
}

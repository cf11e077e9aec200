package retry_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

// counted fills a trailer with n and the number of bytes, at the end.
type counted struct {
	io.Reader
	trailer http.Header
	n       int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	if errors.Is(err, io.EOF) {
		c.trailer.Set("X-Count", strconv.Itoa(c.n))
	}
	return n, err
}

func TestEachRepetitionSendsTheTrailersOfItsBody(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, mode := range []string{"GetBody", "streamed", "Clone", "early answer"} {
			t.Run(mode+" "+protocol, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var got []string
					srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if mode == "early answer" && len(got) < 2 {
							got = append(got, "early")
							w.WriteHeader(http.StatusServiceUnavailable)
							return
						}
						_, _ = io.Copy(io.Discard, r.Body)
						got = append(got, r.Trailer.Get("X-Count")+" "+r.Trailer.Get("X-Set"))
						if len(got) < 3 {
							w.WriteHeader(http.StatusServiceUnavailable)
						}
					}))
					tr := srv.Transport()
					if protocol == "HTTP/2.0" {
						tr.Protocols = resiltest.HTTP2()
					}
					req := request(t.Context(), http.MethodPut, nil)
					req.URL = core.Must(req.URL.Parse(srv.URL))
					if mode == "Clone" {
						req = req.Clone(t.Context())
					}
					req.Trailer = http.Header{"X-Count": nil, "X-Set": {"early"}}
					text := strings.Repeat("x", 100<<10)
					bodies := 0
					body := func() io.ReadCloser {
						bodies++
						return io.NopCloser(&counted{Reader: strings.NewReader(text), trailer: req.Trailer, n: bodies})
					}
					req.Body, req.ContentLength = body(), -1
					if mode != "streamed" {
						req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
					}
					resp, err := quick(retry.Config{MaxBuffer: 1 << 20, ModifyRequest: func(req *http.Request, _ int) error {
						req.Trailer.Set("X-Set", "signed")
						return nil
					}}).Transport(tr).RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, 200, resp.StatusCode)
					switch mode {
					case "early answer":
						require.Equal(t, strconv.Itoa(102400+bodies)+" signed", got[2], "net/http may have asked for bodies too")
					case "streamed":
						require.Equal(t, []string{"102401 early", "102401 signed", "102401 signed"}, got)
					default:
						require.Equal(t, []string{"102401 early", "102402 signed", "102403 signed"}, got)
					}
				})
			})
		}
	}
}

func TestAWrappedEmptyBodyIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				if calls++; calls < 3 || n > 0 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			req := request(t.Context(), method, nil)
			req.URL, req.Body = core.Must(req.URL.Parse(srv.URL)), struct{ io.ReadCloser }{http.NoBody}
			resp, err := quick(retry.Config{}).Transport(srv.Transport()).RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 200, resp.StatusCode, method)
			require.Equal(t, 3, calls)
		})
	}
}

package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
)

func TestABodyThatIsStuckDoesNotHoldUpALaterAttemptWithTrailers(t *testing.T) {
	t.Parallel()
	for _, rewound := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			req := upload(t, true, "body")
			released := make(chan struct{})
			req.Body = io.NopCloser(reads(func([]byte) (int, error) {
				<-released
				return 0, io.EOF
			}))
			r := client.NewReplay(req, 0)
			defer r.Close()
			first, err := r.Attempt(t.Context())
			require.NoError(t, err)
			ended := make(chan error)
			go func() {
				_, err := io.Copy(io.Discard, first.Body)
				ended <- err
			}()
			synctest.Wait()
			second := first
			body := core.Must(first.GetBody())
			if !rewound {
				second = core.Must(r.Attempt(t.Context()))
				body = second.Body
			}
			done := make(chan string)
			go func() {
				text, _ := io.ReadAll(body)
				done <- string(text)
			}()
			require.Equal(t, "body", <-done)
			require.Equal(t, "iiii", second.Trailer.Get("X-Sum"))
			second.Trailer.Set("X-Sum", "mine")
			req.Trailer.Set("X-Sum", "other") // the caller's again
			close(released)
			require.NoError(t, <-ended)
			require.Equal(t, "mine", second.Trailer.Get("X-Sum"))
			if !rewound {
				require.Empty(t, first.Trailer.Get("X-Sum"))
			}
		})
	}
}

func TestAnAttemptWithTrailersReadsNothingAfterALaterOneBegan(t *testing.T) {
	t.Parallel()
	read := 0
	req := upload(t, true, "body")
	req.Body = io.NopCloser(io.TeeReader(strings.NewReader("body"), writes(func(p []byte) (int, error) {
		read += len(p)
		return len(p), nil
	})))
	r := client.NewReplay(req, 0)
	defer r.Close()
	first := core.Must(r.Attempt(t.Context()))
	second := core.Must(r.Attempt(t.Context()))
	_, err := io.Copy(io.Discard, first.Body)
	require.Error(t, err)
	require.Zero(t, read)
	require.Equal(t, http.Header{"X-Sum": nil, "X-Set": {"early"}}, first.Trailer)
	_, err = io.Copy(io.Discard, second.Body)
	require.NoError(t, err)
	require.Equal(t, "iiii", second.Trailer.Get("X-Sum"))
}

type writes func(p []byte) (int, error)

func (f writes) Write(p []byte) (int, error) { return f(p) }

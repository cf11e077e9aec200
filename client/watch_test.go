package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
)

// The limit strikes after a second, while the body is open and no Read runs.
func TestLimitWhileABodyIsOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		read time.Duration
		last error
		want core.Outcome
	}{
		{0, nil, core.Ignored},
		{500 * time.Millisecond, nil, core.Ignored},
		{900 * time.Millisecond, io.EOF, core.Failure}, // the request was sent, and the server did not answer
	} {
		synctest.Test(t, func(t *testing.T) {
			req := request(t, http.MethodPut, reads(func([]byte) (int, error) {
				time.Sleep(c.read)
				return 1, c.last
			}))
			replay := client.NewReplay(req, -1)
			defer replay.Close()
			sent, err := replay.Attempt(req.Context())
			require.NoError(t, err)
			_, err = sent.Body.Read(make([]byte, 10))
			require.Equal(t, c.last, err)
			time.Sleep(time.Second - c.read)
			require.Equal(t, c.want, client.Classify(t.Context(), nil, client.Explain(sent, limit{})), c)
		})
	}
}

func TestAHeaderWithADeleteCharacterCannotBeSent(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{"header", "trailer"} {
		req := request(t, http.MethodPut, strings.NewReader("abc"))
		if values := (http.Header{"X": {"a\x7f"}}); fields == "header" {
			req.Header = values
		} else {
			req.Trailer = values
		}
		require.Equal(t, core.Ignored, client.Classify(t.Context(), nil, client.Explain(req, errDown)), fields)
	}
}

// A transport may return any error when its context ends.
func TestALimitThatStrikesInAReadIsTheFaultOfTheCallerWhateverTheError(t *testing.T) {
	t.Parallel()
	for stuck, want := range map[bool]core.Outcome{true: core.Ignored, false: core.Failure} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, limit{})
			defer cancel()
			body, writer := io.Pipe()
			replay := client.NewReplay(request(t, http.MethodPut, body).WithContext(ctx), -1)
			sent, err := replay.Attempt(ctx)
			require.NoError(t, err)
			if stuck {
				go func() { _, _ = sent.Body.Read(make([]byte, 1)) }()
			}
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, want, client.Classify(ctx, nil, client.Explain(sent, errDown)))
			require.NoError(t, writer.Close())
			require.NoError(t, sent.Body.Close())
			replay.Close()
		})
	}
}

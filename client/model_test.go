package client_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/resiltest"
)

// Readers that come and go at random see the whole body, or an error, never a part that looks whole.
func TestReplayModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
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
					require.Greater(t, int64(len(content)), limit, "seed %d", seed)
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

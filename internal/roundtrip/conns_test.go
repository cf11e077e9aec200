package roundtrip

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConns(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		field string        // of the header that the first request has written
		end   time.Duration // of the first request
		wait  time.Duration // of the second one
	}{
		"HTTP/1":                    {"Host", time.Millisecond, time.Millisecond},
		"HTTP/1, without an answer": {"Host", time.Hour, answerTime},
		"HTTP/2":                    {":authority", time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c Conns
				conn, other := net.Pipe()
				first, second := c.Begin(), c.Begin()
				require.Nil(t, first.Got(conn))
				require.Nil(t, first.Got(conn), "it has it already")
				require.Nil(t, second.Got(nil), "not known")
				first.WroteHeaderField(row.field, nil)
				go func() {
					time.Sleep(row.end)
					first.End()
				}()
				start := time.Now()
				require.Nil(t, second.Got(other))
				second.Got(conn).Answer()
				require.Equal(t, row.wait, time.Since(start))
				second.End()
				time.Sleep(time.Hour)
				require.Empty(t, c.users)
				require.Nil(t, second.Got(conn), "after its end")
				require.Empty(t, c.users)
			})
		})
	}
}

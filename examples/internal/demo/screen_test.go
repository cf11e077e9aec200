package demo

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// There is a line a second, and fewer in a long run.
func TestLinesOfProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &Screen{Writer: &out}
	for at := range 400 {
		s.show(time.Duration(at)*100*time.Millisecond, float64(at)/400, "x")
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	require.Len(t, lines, 24)
	require.Equal(t, "1s: x, 39s left", string(lines[0]))
	require.Equal(t, "2s: x, 38s left", string(lines[1]))
}

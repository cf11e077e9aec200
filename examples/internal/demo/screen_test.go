package demo

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBarIsLastLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &Screen{w: &out, terminal: true}
	_, _ = s.Write([]byte("a\n"))
	s.show(time.Second, 1./3, "x")
	_, _ = s.Write([]byte("b\n"))
	s.clear()
	_, _ = s.Write([]byte("c\n"))
	const line = "[##########....................] 1s: x, 2s left"
	require.Equal(t, "a\n\r\x1b[K"+line+"\r\x1b[Kb\n"+line+"\r\x1b[Kc\n", out.String())
	require.Equal(t, "[##############################]", bar(1))
}

// Without a terminal there is a line a second, and fewer in a long run.
func TestLinesWithoutTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := NewScreen(&out)
	for at := range 400 {
		s.show(time.Duration(at)*100*time.Millisecond, float64(at)/400, "x")
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	require.Len(t, lines, 24)
	require.Equal(t, "1s: x, 39s left", string(lines[0]))
	require.Equal(t, "2s: x, 38s left", string(lines[1]))
	s.clear()
	out.Reset()
	s.show(time.Second, 0, "the next run")
	require.Equal(t, "1s: the next run\n", out.String())
}

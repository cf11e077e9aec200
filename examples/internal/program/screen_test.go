package program

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheBarIsTheLastLineOfATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &Screen{w: &out, Terminal: true}
	_, _ = s.Write([]byte("a\n"))
	s.Draw("[#.]")
	_, _ = s.Write([]byte("b\n"))
	s.Draw("[##]")
	s.Draw("")
	_, _ = s.Write([]byte("c\n"))
	require.Equal(t, "a\n\r\x1b[K[#.]\r\x1b[Kb\n[#.]\r\x1b[K[##]\r\x1b[Kc\n", out.String())
}

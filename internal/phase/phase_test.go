package phase_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/phase"
)

type place int

const (
	outer place = 100
	inner place = 200
)

func (p place) String() string {
	return phase.String(p, map[place]string{outer: "Outer", inner: "Inner"})
}

func TestString(t *testing.T) {
	t.Parallel()
	for p, want := range map[place]string{outer: "Outer", 101: "Outer+1", inner: "Inner", 250: "Inner+50", 99: "Phase(99)", 0: "Phase(0)", -3: "Phase(-3)"} {
		require.Equal(t, want, p.String())
	}
}

package program_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/program"
)

func TestBar(t *testing.T) {
	t.Parallel()
	require.Equal(t, "[..............................]", program.Bar(0, time.Second))
	require.Equal(t, "[##########....................]", program.Bar(time.Second, 3*time.Second))
	require.Equal(t, "[##############################]", program.Bar(time.Second, time.Second))
}

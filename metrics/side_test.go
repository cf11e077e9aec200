package metrics_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/metrics"
)

func TestSidesHaveNames(t *testing.T) {
	t.Parallel()
	for s, want := range map[metrics.Side]string{metrics.Server: "server", metrics.Client: "client"} {
		text, err := s.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		got := metrics.Side(9)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, s, got)
	}
	_, err := metrics.Side(9).MarshalText()
	require.EqualError(t, err, "metrics.Side = Side(9): must be server or client")
	got := metrics.Client
	require.ErrorIs(t, got.UnmarshalText([]byte("Server")), core.ErrConfig)
	require.Equal(t, metrics.Client, got)
}

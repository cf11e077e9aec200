package timeout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

func TestSetConfigReportsEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	total := core.Must(timeout.NewTotal(timeout.Config{}))
	require.EqualError(t, total.SetConfig(timeout.Config{Name: "other", BodyIdle: -1, ResponseHeader: time.Second}),
		"timeout.Config.BodyIdle = -1ns: must be >= 0 (0 means no limit)\n"+
			"timeout.Config.Name = other: must stay total\n"+
			"timeout.Config.ResponseHeader = 1s: must be 0 for a total limit")
	require.Equal(t, timeout.Config{}, total.Config())
	srv := core.Must(timeout.NewServer(timeout.ServerConfig{}))
	require.EqualError(t, srv.SetConfig(timeout.ServerConfig{Name: "other", MaxBuffer: -1}),
		"timeout.ServerConfig.MaxBuffer = -1: must be >= 0 (0 means 65536)\n"+
			"timeout.ServerConfig.Name = other: must stay server")
	require.Equal(t, timeout.ServerConfig{}, srv.Config())
}

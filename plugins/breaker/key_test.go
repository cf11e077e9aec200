package breaker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/server"
)

func TestAKeyByAHeaderThatCannotBeIsAConfigError(t *testing.T) {
	t.Parallel()
	_, err := breaker.NewServer(breaker.ServerConfig{Key: server.ByHeader("X API Key")})
	require.ErrorIs(t, err, core.ErrConfig)
	require.ErrorContains(t, err, `breaker.ServerConfig.Key = "X API Key"`)
	s := core.Must(breaker.NewServer(breaker.ServerConfig{Key: server.ByHeader("X-API-Key")}))
	require.ErrorIs(t, s.SetConfig(breaker.ServerConfig{Key: server.ByHeader("")}), core.ErrConfig)
}

package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

func TestAHeaderNameThatCannotBeIsReported(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "X API Key", "X-Key:", "Host"} {
		for _, key := range []server.Key{server.ByHeader(name), server.Keys(server.ByHeader(name)), server.FirstOf(server.ByUser(), server.ByHeader(name))} {
			err := key.Validate()
			require.ErrorIs(t, err, core.ErrConfig)
			require.ErrorContains(t, err, "server.ByHeader = \""+name+"\": must be the name of a header field")
			require.Equal(t, "(none)", keyOf(key, get("/", "X-Key", "k")))
		}
	}
	for _, key := range []server.Key{nil, server.ByHeader("X-API-Key"), server.Keys(), server.ByClientIP(), server.ByRoute()} {
		require.NoError(t, key.Validate())
	}
	_, err := server.ClientIP{TrustUnix: true, Header: "X Real IP"}.Key()
	require.ErrorContains(t, err, `server.ClientIP.Header = "X Real IP": must be the name of a header field`)
}

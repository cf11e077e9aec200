package client_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

func TestAPluginOfThePipelineMustNotBeInItsBase(t *testing.T) {
	t.Parallel()
	retry := &stub{name: "retry", phase: client.Attempts}
	other := &stub{name: "retry", phase: client.Attempts}
	script := resiltest.NewScript()
	inner := client.New(script, retry)
	between := client.New(inner, &stub{name: "cache", phase: client.Overall})
	for name, tr := range map[string]*client.Transport{
		"in the base":             client.New(inner, other, retry),
		"in the base of the base": client.New(between, other, retry),
		"in another phase":        client.New(inner, other, client.InPhase(retry, client.Overall)),
	} {
		want := "client.New[1] = *client_test.stub(retry): must not be in the pipeline and in its base"
		require.Equal(t, []string{want}, tr.Check(), name)
		_, err := tr.RoundTrip(request(t, http.MethodGet, nil))
		require.ErrorIs(t, err, core.ErrConfig, name)
		require.EqualError(t, err, want, name)
	}
	require.Zero(t, script.Calls(), "nothing is sent")
	require.Nil(t, client.New(inner, other).Check(), "another plugin")
	require.Nil(t, client.New(client.New(script), retry).Check(), "a base without it")
	require.Nil(t, client.New(inner).Check(), "only in the base")
	require.Nil(t, client.New(script, retry).Check(), "in two pipelines beside each other")
}

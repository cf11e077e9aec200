package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

func TestOrderOfArgumentsDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 4, 0, 3, 1}} {
		var passed []string
		all := []client.Plugin{
			&stub{name: "cache", phase: client.Overall, passed: &passed},
			&stub{name: "retry", phase: client.Attempts, passed: &passed},
			&stub{name: "limiter", phase: client.Admission, passed: &passed},
			&stub{name: "breaker", phase: client.Attempt, passed: &passed},
			&stub{name: "timeout", phase: client.Attempt + 10, passed: &passed},
		}
		var plugins []client.Plugin
		for _, i := range order {
			plugins = append(plugins, all[i])
		}
		tr := client.New(resiltest.NewScript(), plugins...)
		_, err := tr.RoundTrip(request(t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, []string{"cache", "retry", "limiter", "breaker", "timeout"}, passed)
		require.Nil(t, tr.Check())
		require.Equal(t, "Overall *client_test.stub(cache) > Attempts *client_test.stub(retry) > Admission *client_test.stub(limiter) > "+
			"Attempt *client_test.stub(breaker) > Attempt+10 *client_test.stub(timeout) > *resiltest.Script", tr.String())
	}
}

func TestEqualPhasesKeepTheOrderOfArguments(t *testing.T) {
	t.Parallel()
	var passed, want []string
	var plugins []client.Plugin
	phases := []client.Phase{client.Overall, client.Attempts, client.Attempt}
	for i := range 60 {
		plugins = append(plugins, &stub{name: strconv.Itoa(i), phase: phases[i*7%3], passed: &passed})
	}
	for _, phase := range phases {
		for _, p := range plugins {
			if p.Phase() == phase {
				want = append(want, p.Name())
			}
		}
	}
	_, err := client.New(resiltest.NewScript(), plugins...).RoundTrip(request(t, http.MethodGet, nil))
	require.NoError(t, err)
	require.Equal(t, want, passed)
}

func TestInPhaseMovesAPluginAndCheckTells(t *testing.T) {
	t.Parallel()
	var passed []string
	retry := &stub{name: "retry", phase: client.Attempts, passed: &passed}
	breaker := &stub{name: "breaker", phase: client.Attempt, passed: &passed}
	tr := client.New(resiltest.NewScript(), retry, client.InPhase(client.InPhase(breaker, client.Attempt+1), client.Overall))
	_, err := tr.RoundTrip(request(t, http.MethodGet, nil))
	require.NoError(t, err)
	require.Equal(t, []string{"breaker", "retry"}, passed)
	require.Equal(t, []string{"client: *client_test.stub(breaker) is outside *client_test.stub(retry), which belongs outside of it (Attempts before Attempt)"}, tr.Check())
	require.Equal(t, "Overall *client_test.stub(breaker) > Attempts *client_test.stub(retry) > *resiltest.Script", tr.String())

	require.Same(t, breaker, client.InPhase(breaker, 0), "zero leaves it where it belongs")
	require.Nil(t, client.New(resiltest.NewScript(), retry, client.InPhase(breaker, client.Attempts)).Check(), "beside it, and still inside")
}

func TestPluginsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	good := &stub{name: "good", phase: client.Attempts}
	var failed *stub // what a constructor returns with an error that nobody looked at
	for name, tc := range map[string]struct {
		plugins []client.Plugin
		want    []string
	}{
		"nil":          {[]client.Plugin{good, nil}, []string{"client.New[1] = <nil>: must be a plugin (did its constructor fail?)"}},
		"typed nil":    {[]client.Plugin{failed, good}, []string{"client.New[0] = <nil>: must be a plugin (did its constructor fail?)"}},
		"nil in phase": {[]client.Plugin{client.InPhase(failed, client.Attempts)}, []string{"client.New[0] = <nil>: must be a plugin (did its constructor fail?)"}},
		"twice":        {[]client.Plugin{good, client.InPhase(good, client.Overall)}, []string{"client.New[1] = *client_test.stub(good): must not be in the pipeline twice"}},
		"two reported": {[]client.Plugin{nil, good, good}, []string{"client.New[0] = <nil>: must be a plugin (did its constructor fail?)", "client.New[2] = *client_test.stub(good): must not be in the pipeline twice"}},
		"nil transport": {[]client.Plugin{noTransport{good}}, []string{
			"client.New = good: must not return a nil transport",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := 0
			tr := client.New(roundTrip(func(*http.Request) (*http.Response, error) { sent++; return nil, errors.New("no") }), tc.plugins...)
			b := resiltest.NewBody("x")
			resp, err := tr.RoundTrip(request(t, http.MethodPost, b))
			require.Nil(t, resp)
			require.ErrorIs(t, err, core.ErrConfig)
			require.Equal(t, tc.want, tr.Check())
			require.Equal(t, strings.Join(tc.want, "\n"), err.Error())
			require.Zero(t, sent, "nothing is sent without the protection that was asked for")
			require.Equal(t, 1, b.Closes())
		})
	}
}

type noTransport struct{ *stub }

func (noTransport) Transport(http.RoundTripper) http.RoundTripper { return nil }

func TestNilBaseIsACloneOfTheDefaultTransport(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer srv.Close()
	tr := client.New(nil)
	require.Equal(t, "*http.Transport", tr.String())
	for range 2 {
		resp, err := (&http.Client{Transport: tr}).Get(srv.URL)
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	require.NoError(t, tr.Close(), "closes its idle connections, or srv.Close would wait for them")
}

type idler struct {
	*resiltest.Script
	calls int
}

func (i *idler) CloseIdleConnections() { i.calls++ }

func TestCloseIdleConnectionsPassesThroughAllLayers(t *testing.T) {
	t.Parallel()
	base := &idler{Script: resiltest.NewScript()}
	inner := client.New(base, &stub{name: "a", phase: client.Attempts}) // its layer does not have the method
	c := &http.Client{Transport: client.New(inner, &stub{name: "b", phase: client.Overall}, &stub{name: "c", phase: client.Attempt})}
	c.CloseIdleConnections()
	require.Equal(t, 1, base.calls)
	client.CloseIdleConnections(resiltest.NewScript()) // has no such method, which is no harm
}

func TestCloseClosesPluginsAndJoinsErrors(t *testing.T) {
	t.Parallel()
	base := &idler{Script: resiltest.NewScript()}
	errA, errB := errors.New("a"), errors.New("b")
	a, b := &stub{name: "a", phase: 1, closeErr: errA}, &stub{name: "b", phase: 2, closeErr: errB}
	err := client.New(base, a, client.InPhase(b, client.Attempts)).Close()
	require.ErrorIs(t, err, errA)
	require.ErrorIs(t, err, errB)
	require.Equal(t, []int{1, 1, 0}, []int{a.closed, b.closed, base.calls}, "the base is not ours")
}

func TestPhaseString(t *testing.T) {
	t.Parallel()
	got := []string{}
	for _, p := range []client.Phase{-1, 0, 1, client.Overall, 150, client.Attempts, client.Admission + 1, client.Attempt, 9999} {
		got = append(got, p.String())
	}
	require.Equal(t, []string{"Phase(-1)", "Phase(0)", "Phase(1)", "Overall", "Overall+50", "Attempts", "Admission+1", "Attempt", "Attempt+9599"}, got)
	require.True(t, slices.IsSorted([]client.Phase{client.Overall, client.Attempts, client.Admission, client.Attempt}))
}

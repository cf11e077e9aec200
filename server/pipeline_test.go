package server_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

func TestPipeline_OrderIsThatOfThePhases(t *testing.T) {
	t.Parallel()
	setup := &plugin{name: "setup", phase: server.Setup}
	log := &plugin{name: "log", phase: server.Monitoring}
	limitA := &plugin{name: "limit A", phase: server.Admission}
	limitB := &plugin{name: "limit B", phase: server.Admission}
	call := &plugin{name: "call", phase: server.Handling}
	fallback := &plugin{name: "fallback", phase: server.Fallback}
	for _, tt := range []struct {
		name    string
		plugins []server.Plugin
		want    []string
	}{
		{"none", nil, nil},
		{"reversed", []server.Plugin{fallback, call, limitA, log, setup}, []string{"setup", "log", "limit A", "call", "fallback"}},
		{"equals stay as given", []server.Plugin{limitB, setup, limitA}, []string{"setup", "limit B", "limit A"}},
		{"overridden", []server.Plugin{limitA, server.InPhase(call, server.Setup-1)}, []string{"call", "limit A"}},
		{"zero phase leaves it", []server.Plugin{call, server.InPhase(limitA, 0)}, []string{"limit A", "call"}},
		{"last override counts", []server.Plugin{limitA, server.InPhase(server.InPhase(call, server.Setup), server.Fallback)}, []string{"limit A", "call"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := server.New(tt.plugins...)
			require.NoError(t, err)
			w := httptest.NewRecorder()
			p.Handler(http.HandlerFunc(ok)).ServeHTTP(w, get("/"))
			require.Equal(t, tt.want, w.Header().Values("Passed"))
			require.Equal(t, "ok", w.Body.String())
		})
	}
}

func TestPipeline_EveryUnusablePluginIsReported(t *testing.T) {
	t.Parallel()
	p := &plugin{name: "twice"}
	var failed *plugin // what a constructor returns with its error
	_, err := server.New(p, nil, failed, server.InPhase(failed, server.Handling), server.InPhase(p, server.Setup))
	require.ErrorIs(t, err, core.ErrConfig)
	for _, want := range []string{"server.New[1] = <nil>: must be a plugin", "server.New[2]", "server.New[3]", "server.New[4] = twice: must not be in the pipeline twice"} {
		require.ErrorContains(t, err, want)
	}
}

func TestPipeline_CheckTellsOfInversionsOnly(t *testing.T) {
	t.Parallel()
	limit := &plugin{name: "api", phase: server.Admission}
	call := &plugin{name: "auth", phase: server.Handling}
	require.Nil(t, core.Must(server.New(call, limit)).Check())
	require.Nil(t, core.Must(server.New(server.InPhase(call, server.Fallback), limit)).Check(), "moved, and still inside")
	p := core.Must(server.New(limit, server.InPhase(call, server.Monitoring)))
	require.Equal(t, []string{"server: *server_test.plugin(auth) is outside *server_test.plugin(api), which belongs outside of it (Admission before Handling)"}, p.Check())
	require.Equal(t, "Monitoring *server_test.plugin(auth) > Admission *server_test.plugin(api)", p.String())
}

func TestPipeline_CloseClosesAllAndJoinsErrors(t *testing.T) {
	t.Parallel()
	errA, errB := errors.New("a"), errors.New("b")
	a, b, c := &plugin{name: "a", closeErr: errA}, &plugin{name: "b", closeErr: errB}, &plugin{name: "c"}
	p := core.Must(server.New(a, b, c))
	err := p.Close()
	require.ErrorIs(t, err, errA)
	require.ErrorIs(t, err, errB)
	require.Equal(t, 1, c.closed)
	require.NoError(t, new(server.Pipeline).Close())
}

func TestPhase_String(t *testing.T) {
	t.Parallel()
	for p, want := range map[server.Phase]string{
		0: "Phase(0)", 99: "Phase(99)", server.Setup: "Setup", 110: "Setup+10", server.Monitoring: "Monitoring",
		server.Admission: "Admission", server.Admission + 1: "Admission+1", server.Handling: "Handling", server.Fallback: "Fallback", 1000: "Fallback+500",
	} {
		require.Equal(t, want, p.String())
	}
}

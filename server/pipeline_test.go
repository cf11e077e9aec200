package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/server"
)

// plugin is a server.Plugin that writes its name into a header of the response.
type plugin struct {
	name  string
	phase server.Phase
}

func (p *plugin) String() string      { return "test.plugin(" + p.name + ")" }
func (p *plugin) Phase() server.Phase { return p.phase }

func (p *plugin) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Passed", p.name)
		next.ServeHTTP(w, r)
	})
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }

func get(target string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// keyOf returns the key of r as text, and "(none)" where it has none.
func keyOf(k server.Key, r *http.Request) string {
	key, found := k(r)
	if !found {
		return "(none)"
	}
	return key
}

func record(w http.ResponseWriter) (http.ResponseWriter, *reject.Recorder) {
	rec := new(reject.Recorder)
	return rec.Wrap(w), rec
}

func TestPipeline_Order(t *testing.T) {
	t.Parallel()
	setup := &plugin{"setup", server.Setup}
	log := &plugin{"log", server.Monitoring}
	limitA := &plugin{"limit A", server.Admission}
	limitB := &plugin{"limit B", server.Admission}
	call := &plugin{"call", server.Handling}
	fallback := &plugin{"fallback", server.Fallback}
	for _, tt := range []struct {
		name    string
		plugins []server.Plugin
		want    []string
	}{
		{"none", nil, nil},
		{"reversed", []server.Plugin{fallback, call, limitA, log, setup}, []string{"setup", "log", "limit A", "call", "fallback"}},
		{"equals stay as given", []server.Plugin{limitB, setup, limitA}, []string{"setup", "limit B", "limit A"}},
		{"overridden", []server.Plugin{limitA, server.InPhase(call, server.Setup-1)}, []string{"call", "limit A"}},
		{"last override counts", []server.Plugin{limitA, server.InPhase(server.InPhase(call, server.Setup), server.Fallback)}, []string{"limit A", "call"}},
		{"middleware", []server.Plugin{call, server.Middleware(setup.Handler, server.Setup)}, []string{"setup", "call"}},
		{"routes around and inside", []server.Plugin{limitA, server.Route("/", fallback, setup)}, []string{"setup", "limit A", "fallback"}},
		{"routes next to each other", []server.Plugin{server.Route("/", limitB, call), limitA}, []string{"limit B", "limit A", "call"}},
		{"route in a phase", []server.Plugin{limitA, server.InPhase(server.Route("/", call, log), server.Setup)}, []string{"call", "log", "limit A"}},
		{"route of all paths", []server.Plugin{server.Route("/{rest...}", limitA)}, []string{"limit A"}},
		{"another route", []server.Plugin{limitA, server.Route("/other", call, limitB)}, []string{"limit A"}},
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

func TestNew_Errors(t *testing.T) {
	t.Parallel()
	p, q := &plugin{name: "twice"}, &plugin{name: "shared"}
	var failed *plugin // what a constructor returns with its error
	_, err := server.New(p, nil, failed, server.InPhase(failed, server.Handling), server.InPhase(p, server.Setup), server.Middleware(nil, server.Setup),
		server.Route("POST /a", p, q, nil), server.Route("/b", q, q), server.Route("post /c"), server.Route("/{"), server.Route("/*"),
		server.Route("/{x}/d"), server.Route("/e/{y}"), server.Route("/b"), server.Route("/f", server.Route("/g")),
		server.Route("https://a.example.com/"), server.Route("GET a.example.com:8080/"), server.Route("A.example.com/"), server.Route("[::1]/"))
	require.ErrorIs(t, err, core.ErrConfig)
	for _, want := range []string{
		"server.New[1] = <nil>: must be a plugin", "server.New[2]", "server.New[3]", "server.New[4] = test.plugin(twice): must not be in the pipeline twice", "server.New[5]",
		"server.New[6][0] = test.plugin(twice): must not be in the pipeline twice", "server.New[6][2] = <nil>", "server.New[7][1] = test.plugin(shared)",
		`server.New[8] = "post /c": must have its method`, `server.New[9] = "/{": must be a pattern`, `server.New[10] = "/*": must not have a *`,
		`server.New[12] = "/e/{y}": must not conflict with pattern 5, "/{x}/d"`, `server.New[13] = "/b": must not conflict with pattern 1, "/b"`,
		"server.New[14][0] = server.Route(/g): must not be a Route in a Route", `server.New[15] = "https://a.example.com/": must have a host without a port`,
		`server.New[16] = "GET a.example.com:8080/": must have a host without a port`, `server.New[17] = "A.example.com/": must have its host in lower case`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), 17, err.Error())
}

func TestPipeline_Check(t *testing.T) {
	t.Parallel()
	limit, call := &plugin{"api", server.Admission}, &plugin{"auth", server.Handling}
	require.Nil(t, core.Must(server.New(call, limit)).Check())
	require.Nil(t, core.Must(server.New(server.InPhase(call, server.Fallback), limit)).Check(), "moved, and still inside")
	p := core.Must(server.New(limit, server.InPhase(call, server.Monitoring)))
	require.Equal(t, []string{"server: test.plugin(auth) is outside test.plugin(api), which belongs outside of it (Admission before Handling)"}, p.Check())
	require.Equal(t, "Monitoring test.plugin(auth) > Admission test.plugin(api)", p.String())

	moved := server.InPhase(call, server.Monitoring)
	require.Len(t, core.Must(server.New(limit, server.Route("/", moved))).Check(), 1)
	p = core.Must(server.New(server.Route("/a", limit), server.Route("/", moved), server.Middleware(middleware.RequestID, server.Setup)))
	require.Nil(t, p.Check(), "no request passes both")
	require.Equal(t, "Setup server.Middleware(middleware.RequestID) > Monitoring test.plugin(auth) of server.Route(/) > Admission test.plugin(api) of server.Route(/a)", p.String())
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

package client

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/phase"
	"github.com/gresil/gresil/internal/roundtrip"
)

// Route returns a plugin that applies plugins to the requests that pattern selects. It is a pattern of [http.ServeMux], such as "POST
// api.example.com/search" or "api.example.com/". In a transport, each of the plugins is in its own phase. The host in a pattern has no
// port, and selects every port.
//
// The Routes of a transport are like the handlers of one ServeMux: to each request only the Route with the most specific pattern applies.
// "/" selects the requests that no other Route selects. A plugin that is not in a Route applies to every request. If the pattern is
// invalid, the Transport method of a Route panics; [New] reports it.
func Route(pattern string, plugins ...Plugin) Plugin {
	return &route{routed{Pattern: pattern, Plugins: slices.Clone(plugins)}}
}

type routed = phase.Route[Phase, Plugin]

type route struct{ routed }

func (rt *route) Transport(next http.RoundTripper) http.RoundTripper {
	t := New(next, rt)
	if t.err != nil {
		panic(t.err)
	}
	return t
}

func (rt *route) String() string { return "client.Route(" + rt.Pattern + ")" }

// A selection is a transport that chooses among the plugins of adjacent Routes.
type selection struct {
	mux  phase.Mux[Phase, Plugin]
	of   map[*routed]http.RoundTripper
	next http.RoundTripper
}

func (s *selection) RoundTrip(req *http.Request) (*http.Response, error) {
	t, ok := s.of[s.find(req)]
	if !ok {
		t = s.next
	}
	return t.RoundTrip(req)
}

// find returns the Route of a request, or nil. It uses the host of the URL, since req.Host can be another one.
func (s *selection) find(req *http.Request) *routed {
	if req.URL == nil {
		return nil
	}
	host := strings.TrimSuffix(strings.ToLower(req.URL.Hostname()), ".")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	of := &url.URL{Host: host, Path: req.URL.Path, RawPath: req.URL.RawPath}
	return s.mux.Find(&http.Request{Method: cmp.Or(req.Method, http.MethodGet), Host: host, URL: of})
}

func (s *selection) CloseIdleConnections() { roundtrip.CloseIdleConnections(s.next) }

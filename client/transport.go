package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/phase"
	"github.com/gresil/gresil/internal/roundtrip"
)

// A Transport is a RoundTripper with plugins around it. It is safe for concurrent use.
type Transport struct {
	outer   http.RoundTripper // nil if there is an error
	base    http.RoundTripper
	plugins places // from the outermost to the innermost
	within  places // the plugins of a base that is a Transport
	err     error
}

type places = phase.Places[Phase, Plugin]

// New puts plugins around base. Lower phases are outermost; plugins of one phase keep the order of the arguments. If base is
// nil, it is a clone of http.DefaultTransport.
//
// If a plugin is nil or given twice, or a base that is a Transport has it already, or the pattern of a [Route] is invalid, every RoundTrip
// returns a *core.ConfigError, and Check reports it: nothing is sent without its plugins.
func New(base http.RoundTripper, plugins ...Plugin) *Transport {
	t := &Transport{base: base}
	if base == nil {
		t.base = roundtrip.Default()
	}
	if inner, ok := base.(*Transport); ok {
		t.within = slices.Concat(inner.plugins, inner.within)
	}
	sorted, routes, errs := phase.Sort("client", plugins, t.within)
	t.plugins = sorted
	if t.err = errors.Join(errs...); t.err != nil {
		return t
	}
	mux := phase.NewMux(routes)
	choose := func(places phase.Places[Phase, Plugin], next http.RoundTripper) http.RoundTripper {
		of := map[*routed]http.RoundTripper{}
		for _, p := range slices.Backward(places) {
			of[p.Route] = p.Plugin.Transport(cmp.Or(of[p.Route], next))
		}
		return &selection{mux, of, next}
	}
	t.outer = phase.Wrap(sorted, t.base, Plugin.Transport, choose)
	return t
}

// RoundTrip sends a request through the plugins.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.err != nil {
		roundtrip.CloseBody(req)
		return nil, t.err
	}
	return t.outer.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the base.
func (t *Transport) CloseIdleConnections() { roundtrip.CloseIdleConnections(t.base) }

// Check returns a line for each probable mistake: a plugin that cannot be used, an order that is probably wrong, two retries. It is nil if
// there is none.
func (t *Transport) Check() (found []string) {
	if t.err != nil {
		found = strings.Split(t.err.Error(), "\n")
	}
	all := slices.Concat(t.plugins, t.within)
	found = append(found, all.Inversions("client")...)
	all.Pairs(func(outer, inner phase.Place[Phase, Plugin]) {
		if o, i := outer.Plugin, inner.Plugin; o.Phase() == Attempts && i.Phase() == Attempts && reflect.TypeOf(o) == reflect.TypeOf(i) {
			found = append(found, fmt.Sprintf("client: %s is around %s: each repeats the attempts of the other", outer, inner))
		}
	})
	return found
}

// String lists the plugins from the outermost to the base, as in
// "Attempts retry.Client(default) > Attempt breaker.Client(search) > *http.Transport".
func (t *Transport) String() string {
	return strings.Join(append(t.plugins.Titles("client"), fmt.Sprintf("%T", t.base)), " > ")
}

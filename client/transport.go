package client

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/phase"
)

// A Transport is a base transport with plugins around it. It is an
// [http.RoundTripper], safe for concurrent use.
type Transport struct {
	outer   http.RoundTripper
	layers  []http.RoundTripper // from the outermost to the base
	plugins []Plugin            // from the outermost to the innermost
	all     []Plugin            // with those of a base that is a Transport
	base    http.RoundTripper
	ours    bool  // base was made here
	err     error // of RoundTrip, if the plugins cannot be used
}

// New puts plugins around base, sorted by phase. Lower phases are outermost; ties keep
// argument order. If base is nil, a clone of [http.DefaultTransport] is used, so that its
// connections are not shared with the rest of the program. The clone reports a CONNECT that
// a proxy refused as not sent: see [NotSent].
//
// New does not fail. If a plugin is nil or given twice, also if a base that is a Transport
// has it, RoundTrip returns a [*core.ConfigError] for it, and Check reports it.
func New(base http.RoundTripper, plugins ...Plugin) *Transport {
	t := &Transport{base: base}
	if base == nil {
		t.base, t.ours = defaultBase()
	}
	var errs []error
	var within []Plugin
	if inner, ok := t.base.(*Transport); ok {
		within = inner.all
	}
	t.plugins, errs = phase.Sort("client", plugins, within...)
	t.all = slices.Concat(t.plugins, within)
	t.outer = t.base
	t.layers = []http.RoundTripper{t.base}
	for _, p := range slices.Backward(t.plugins) {
		outer := p.Transport(t.outer)
		if outer == nil {
			errs = append(errs, &core.ConfigError{Field: "client.New", Value: p.Name(), Reason: "must not return a nil transport"})
			continue
		}
		t.outer = outer
		t.layers = slices.Insert(t.layers, 0, outer)
	}
	t.err = errors.Join(errs...)
	return t
}

// Check reports probable mistakes in the pipeline, one line each: plugins that cannot be
// used, and pairs whose order an overridden phase has reversed. Such a pair works, if it
// is intended. Without mistakes, Check returns nil.
func (t *Transport) Check() []string {
	var found []string
	if t.err != nil {
		found = strings.Split(t.err.Error(), "\n")
	}
	return append(found, phase.Inversions("client", t.plugins)...)
}

// String lists the plugins from the outermost to the base, each with its phase,
// as in "Attempts retry.Client(default) > Attempt breaker.Client(default) >
// *http.Transport".
func (t *Transport) String() string {
	return strings.Join(append(phase.Titles(t.plugins), fmt.Sprintf("%T", t.base)), " > ")
}

// RoundTrip sends the request through the plugins.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.err != nil {
		CloseBody(req)
		return nil, t.err
	}
	return t.outer.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the base and of every layer. [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	for _, layer := range t.layers {
		CloseIdleConnections(layer)
	}
}

// Close closes the plugins, and with them every other pipeline they are part
// of, and returns their errors joined. It also closes the idle connections of a
// base that New made.
func (t *Transport) Close() error {
	err := phase.Close(t.plugins)
	if t.ours {
		CloseIdleConnections(t.base)
	}
	return err
}

// CloseIdleConnections calls the method of that name if rt has it. A plugin passes the
// call on with it.
func CloseIdleConnections(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// CloseBody closes the body of a request that is not sent, as a RoundTripper must.
func CloseBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // it is not read, so its error has no meaning
	}
}

package dash

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
)

// A Handler serves the page, its JSON and, with Config.Controls, its controls. Make it with
// [New]. It has no authentication: put it behind that of your service.
type Handler struct {
	registry *registry.Registry
	cfg      Config
	guard    *http.CrossOriginProtection
	process  process
	flights  flights
}

// A process identifies the process that a page shows.
type process struct {
	Boot    string    `json:"-"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Go      string    `json:"go"`
	Version string    `json:"version"`
}

// New makes a handler for the instances in the registry, also those added later. A nil
// registry, and each error of [Config.Validate], is a [*core.ConfigError]. It starts nothing.
func New(of *core.Registry, cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if of == nil {
		return nil, &core.ConfigError{Field: "dash.New registry", Value: nil, Reason: "must be the registry of the instances"}
	}
	cfg.Hosts, cfg.Origins = slices.Clone(cfg.Hosts), slices.Clone(cfg.Origins)
	h := &Handler{registry: (*registry.Registry)(of), cfg: cfg, guard: http.NewCrossOriginProtection(), process: thisProcess()}
	for i, origin := range cfg.Origins {
		if err := h.guard.AddTrustedOrigin(origin); err != nil {
			return nil, &core.ConfigError{Field: "dash.Config.Origins[" + count(i).String() + "]", Value: origin, Reason: err.Error()}
		}
	}
	return h, nil
}

func thisProcess() process {
	var boot [4]byte
	_, _ = rand.Read(boot[:]) // never fails
	p := process{Boot: hex.EncodeToString(boot[:]), PID: os.Getpid(), Started: time.Now(), Go: runtime.Version()}
	p.Host, _ = os.Hostname()
	if info, ok := debug.ReadBuildInfo(); ok {
		p.Version = info.Main.Version
	}
	return p
}

// ServeHTTP serves the page. It works below any prefix, cut from the path by the caller or not.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if len(h.cfg.Hosts) > 0 && !slices.Contains(h.cfg.Hosts, hostname(r.Host)) {
		http.Error(w, "this host name is not served", http.StatusMisdirectedRequest) // the page of an error names the process
		return
	}
	if h.guard.Check(r) != nil {
		h.record(r, slog.LevelWarn, "control refused", Action{}, slog.String("reason", "cross-origin request"))
		h.fail(w, r, http.StatusForbidden, "requests from other origins are refused")
		return
	}
	switch route(r) {
	case "/":
		h.read(w, r, h.page)
	case "/api/state":
		h.read(w, r, h.state)
	case "/app.css":
		h.read(w, r, h.asset("app.css"))
	case "/icon.svg":
		h.read(w, r, h.asset("icon.svg"))
	case "/api/control":
		h.control(w, r)
	case "":
		h.read(w, r, h.addSlash)
	default:
		h.fail(w, r, http.StatusNotFound, "there is no such page")
	}
}

// read calls serve if the method only reads.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.fail(w, r, http.StatusMethodNotAllowed, "this page can only be read")
		return
	}
	serve(w, r)
}

// secure sets the fields that each response has.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin") // no-referrer would make the Origin of our own forms null
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// route returns the part of the path below the prefix, or "" for the prefix without its slash.
// If the prefix was not cut from the path, as by chi's Mount, only the end of the path is known.
func route(r *http.Request) string {
	path := "/" + strings.TrimPrefix(r.URL.Path, "/")
	cut := r.URL.Path == ""
	if whole, err := url.ParseRequestURI(r.RequestURI); err == nil {
		cut = cut || whole.EscapedPath() != r.URL.EscapedPath()
	}
	switch {
	case r.URL.Path == "":
		return ""
	case cut:
		return path
	case strings.HasSuffix(path, "/"):
		return "/"
	}
	for _, known := range []string{"/api/state", "/api/control", "/app.css", "/icon.svg"} {
		if strings.HasSuffix(path, known) {
			return known
		}
	}
	if last := path[strings.LastIndexByte(path, '/'):]; strings.Contains(last, ".") || strings.Contains(path, "/api/") {
		return path
	}
	return ""
}

// addSlash redirects from the prefix without its slash. The location is relative, and set by
// hand: http.Redirect would make it absolute, without the part of the path that was cut.
func (*Handler) addSlash(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if whole, err := url.ParseRequestURI(r.RequestURI); err == nil {
		path = whole.EscapedPath()
	}
	location := "./" + path[strings.LastIndexByte(path, '/')+1:] + "/"
	if r.URL.RawQuery != "" {
		location += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// hostname returns a host in lower case and without its port.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

package dash

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/reject"
)

// A Handler serves the page, its JSON and its controls. It is safe for concurrent use.
type Handler struct {
	registry *registry.Registry
	cfg      Config
	guard    *http.CrossOriginProtection
	process  process
	flights  singleflight.Group
}

// A process describes the process that a page shows.
type process struct {
	Program string    `json:"program"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"` // the time of New
	Go      string    `json:"go"`
	Version string    `json:"version,omitempty"`
}

// New makes a handler for the instances in the registry, including those added later. It starts no goroutine. It
// returns the errors of [Config.Validate], or a [*core.ConfigError] if the registry is nil.
func New(of *core.Registry, cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if of == nil {
		return nil, &core.ConfigError{Field: "dash.New registry", Value: nil, Reason: "must be the registry of the instances"}
	}
	cfg.Hosts, cfg.Logger = slices.Clone(cfg.Hosts), cmp.Or(cfg.Logger, slog.Default())
	p := process{Program: filepath.Base(os.Args[0]), PID: os.Getpid(), Started: time.Now().UTC(), Go: runtime.Version()}
	p.Host, _ = os.Hostname()
	if info, ok := debug.ReadBuildInfo(); ok {
		p.Version = info.Main.Version
	}
	return &Handler{registry: (*registry.Registry)(of), cfg: cfg, guard: http.NewCrossOriginProtection(), process: p}, nil
}

// ServeHTTP implements [http.Handler]. The path is relative to the page: use [http.StripPrefix].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if len(h.cfg.Hosts) > 0 && !slices.Contains(h.cfg.Hosts, hostname(r.Host)) {
		http.Error(w, "this host name is not served", http.StatusMisdirectedRequest) // an error page would name the process
		return
	}
	if h.cfg.Controls == nil && r.URL.Path == "/control" {
		h.fail(w, r, http.StatusNotFound, "controls are off")
		return
	}
	if h.guard.Check(r) != nil {
		h.record(r, slog.LevelWarn, "control refused", Action{}, slog.String("reason", "cross-origin request"))
		h.fail(w, r, http.StatusForbidden, "requests from other origins are refused")
		return
	}
	if r.URL.Path != "/control" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.fail(w, r, http.StatusMethodNotAllowed, "this page can only be read")
		return
	}
	switch r.URL.Path {
	case "/", "/state":
		h.page(w, r)
	case "/control":
		h.control(w, r)
	case "": // the prefix without its slash, as chi's Mount passes it
		whole, _, _ := strings.Cut(r.RequestURI, "?")
		w.Header().Set("Location", "./"+path.Base(whole)+"/") // relative: http.Redirect does not know the prefix
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		h.fail(w, r, http.StatusNotFound, "there is no such page; http.StripPrefix has to cut the prefix of the page")
	}
}

// secure sets the header fields that each response has.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; style-src '"+style().hash+"'; img-src data:; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin") // with no-referrer, the Origin of the page's own forms would be null
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// hostname returns a host in lower case and without its port.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// fail sends an error: problem details to a client of JSON, otherwise a page.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if wantsJSON(r) || r.URL.Path == "/state" || strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		reject.Details{Status: status, Detail: detail}.Body().Send(w, r, -1)
		return
	}
	name := http.StatusText(status)
	h.render(w, status, "error", map[string]any{"Process": h.process, "Status": status, "Name": name, "Detail": visible(detail)})
}

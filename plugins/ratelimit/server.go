package ratelimit

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/routes"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/server"
)

// PerIP returns middleware that limits each client IP. A request from a trusted proxy counts for the client that X-Forwarded-For names.
// PerIP panics if limit is invalid.
func PerIP(limit Limit, trusted ...netip.Prefix) func(http.Handler) http.Handler {
	opts := ServerOptions{}
	if len(trusted) > 0 {
		opts.Key = server.Proxies{Trusted: slices.Clone(trusted)}.ClientIP
	}
	return core.Must(NewServer(core.Must(New(Config{Limit: limit})), opts)).Handler
}

// A Server limits requests. It is safe for concurrent use. It is a server.Plugin.
type Server struct {
	*shared
	root   *rule                // of requests without a route
	routes *routes.Table[*rule] // nil if there are none
	layers []*rule
}

// shared is the state that a Server shares with those that Named returns.
type shared struct {
	limiter    *Limiter
	under      string // the name of a limiter of Under; otherwise empty
	opts       ServerOptions
	overridden atomic.Bool // Override was called
	limits     sync.Map    // name in Config.Limits, or "", to *limit
}

// A rule says how requests are charged: those of a route, those of a layer, or all others.
type rule struct {
	*limit
	prefix string                             // of its keys
	key    server.Key                         // of a layer
	tiered bool                               // Tier applies
	weight func(*http.Request) (int64, error) // if nil, that of the options
}

// NewServer makes a plugin. If limiter is nil, it makes one of the zero Config. For invalid or conflicting patterns, and for names that are
// not in Config.Limits, it returns *core.ConfigErrors, joined.
func NewServer(limiter *Limiter, opts ServerOptions) (*Server, error) {
	if limiter == nil {
		limiter = core.Must(New(Config{}))
	}
	if err := opts.validate(limiter); err != nil {
		return nil, err
	}
	s := &Server{shared: &shared{limiter: limiter, opts: opts}}
	for name := range limiter.Config().Limits {
		if limiter.Under(name) == limiter {
			s.under = name
		}
	}
	s.root = &rule{limit: s.limit(""), tiered: true}
	if len(opts.Routes) > 0 {
		rules := map[string]*rule{}
		for _, r := range opts.Routes {
			u := &rule{limit: s.root.limit, tiered: true}
			if r.Limit != "" {
				u = s.named(r.Limit)
			}
			u.weight = r.Weight
			rules[r.Pattern] = u
		}
		s.routes = routes.New(s.root, rules)
	}
	for _, l := range opts.Layers {
		prefix := markLayer + l.Limit + ":"
		if l.Key == nil {
			prefix, l.Key = markAll+l.Limit, func(*http.Request) (string, bool) { return "", true }
		}
		s.layers = append(s.layers, &rule{limit: s.limit(l.Limit), prefix: prefix, key: l.Key})
	}
	return s, nil
}

// limit returns a limit by its name in Config.Limits. For any other name it returns Config.Limit.
func (s *shared) limit(name string) *limit {
	limiter := s.limiter.Under(name)
	if limiter == s.limiter {
		name = s.under // Tier can return any text
	}
	l, ok := s.limits.Load(name)
	if !ok {
		l, _ = s.limits.LoadOrStore(name, &limit{under: name, limiter: limiter})
	}
	return l.(*limit) //nolint:forcetypeassert // nothing else is stored
}

// Keys of requests under Config.Limit are unchanged, so that they can be used with the limiter, unless they begin with # or are long. All
// other keys get a prefix, and long ones are hashed. Names in Config.Limits contain no colon.
const (
	markKey     = "#key:"
	markLimit   = "#limit:"
	markLayer   = "#layer:"
	markAll     = "#all:"
	markRespond = "#respond:"
	markLong    = "#long:"
)

// named returns the rule of a limit in Config.Limits.
func (s *shared) named(name string) *rule {
	return &rule{limit: s.limit(name), prefix: markLimit + name + ":"}
}

// Named returns a plugin that takes permits of one limit in Config.Limits, shared with Routes that have the same Limit. Use it where chi
// defines a route; a Server further out applies too:
//
//	r.With(byUser.Named("export").Handler).Post("/export", export)
//
// It has the options of s without Routes, Layers and Tier; an Override of s applies to it too. Named panics if there is no such limit.
func (s *Server) Named(name string) *Server {
	if _, ok := s.limiter.Config().Limits[name]; !ok {
		panic(validate.Bad("ratelimit.Server.Named", strconv.Quote(name), "must be a name in Config.Limits"))
	}
	return &Server{shared: s.shared, root: s.named(name)}
}

// Override returns a context under which f changes the options of this plugin, for an outer middleware. Routes and Layers cannot be
// changed. To change limits, use Override of the limiter. Overrides nest; the innermost is applied last.
func (s *Server) Override(ctx context.Context, f func(*ServerOptions)) context.Context {
	s.overridden.Store(true)
	return override.Context(ctx, s.shared, f)
}

// Phase returns server.Admission.
func (s *Server) Phase() server.Phase { return server.Admission }

// String returns the type and the name of the limiter, as in "ratelimit.Server(api)".
func (s *Server) String() string { return fmt.Sprintf("ratelimit.Server(%s)", s.limiter.Name()) }

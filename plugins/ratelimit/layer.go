package ratelimit

import (
	"context"
	"net/http"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/server"
)

// A Layer is a limit of requests in addition to the Limit of the config or of their route:
// all of them are charged or none. So a client with many addresses of one network is
// limited by the limit of the network.
type Layer struct {
	// Name names the layer: in Info, as the name of the limit in the RateLimit
	// header, and in violated-policies. It must be given, and be no other name of
	// the plugin.
	Name string
	// Key is the key whose permits of this layer a request takes. The layer does not
	// limit requests without such a key. If nil, all requests share one bucket.
	Key server.Key
	// Limit is the limit of each key. The zero Limit is PerMinute(1000).
	Limit Limit
}

// A layer is a Layer that is ready to use.
type layer struct {
	limiter *ratelimit.Limiter
	text    *text
	key     server.Key // nil: one bucket for all
	name    string
	mark    string
}

// A link is one limiter of a request, and the state of its key there.
type link struct {
	limiter *ratelimit.Limiter
	text    *text
	name    string // in Info
	key     string
	result  Result // its Limit is 0 where nothing is known: the store failed
}

// info returns the argument of OnRejected and OnSuccess.
func (l *link) info(cost int64) Info {
	return Info{Name: l.name, Key: l.key, Cost: cost, Result: l.result}
}

// layered appends the layers of r.
func (s *settings) layered(links []link, r *http.Request) []link {
	links = append(make([]link, 0, len(links)+len(s.layers)), links...)
	for i := range s.layers {
		l := &s.layers[i]
		key, ok := "", true
		if l.key != nil {
			key, ok = l.key(r)
		}
		if ok {
			links = append(links, link{limiter: l.limiter, text: l.text, name: l.name, key: l.mark + key})
		}
	}
	return links
}

// chained takes n permits of a chain of links, and stores its decision in them. A refusal is no error,
// also if permits could not be refunded: they come back in time.
func chained(ctx context.Context, links []link, n int64, how func(ratelimit.Chain, context.Context, int64) (ratelimit.ChainResult, error)) (counts int, err error) {
	chain := make(ratelimit.Chain, len(links))
	for i, l := range links {
		chain[i] = ratelimit.Link{Limiter: l.limiter, Key: l.key}
	}
	all, err := how(chain, ctx, n)
	for i := range all.Each {
		links[i].result = all.Each[i]
	}
	if len(all.Each) > 0 && !all.Allowed {
		err = nil
	}
	return all.Link, err
}

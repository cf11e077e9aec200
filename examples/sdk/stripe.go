package sdk

import (
	"net/http"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v82"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/gate/known"
)

// Stripe configures the gate of an account in live mode.
func Stripe() gate.Config {
	first := func(segments int) func(*http.Request) (string, bool) {
		return func(r *http.Request) (string, bool) {
			parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
			return strings.Join(parts[:min(segments, len(parts))], "/"), len(parts) >= segments
		}
	}
	return gate.Config{
		Name:     "stripe",
		InFlight: 20, // a refusal because of concurrency halves it for a time
		Limits: []gate.Limit{
			{Name: "global", N: 90, Per: time.Second, Burst: 10},
			{Name: "endpoint", N: 22, Per: time.Second, Burst: 3, Key: first(2)}, // v1/customers
			{Name: "object", Key: first(3)},                                      // v1/customers/cus_1, which counts nothing, but can be held
		},
		Classify: known.Stripe,
		Backoff:  backoff.Exponential{Delay: time.Second, Max: 30 * time.Second}, // Stripe gives no time
		MaxWait:  30 * time.Second,
	}
}

// NewStripe returns a client whose calls pass the gate, uploads and those of OAuth too. An API key needs no login.
func NewStripe(g *gate.Gate, key string, cfg stripe.BackendConfig) *stripe.Client {
	cfg.HTTPClient = &http.Client{Transport: g.Transport(nil)}
	cfg.MaxNetworkRetries = stripe.Int64(0)
	return stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&cfg)))
}

package sdk

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/gate/known"
)

// Anthropic configures the gate of an organization. The numbers are those of its account, for each class of models.
func Anthropic() gate.Config {
	login := func(r *http.Request) (string, bool) { return "", strings.HasPrefix(r.URL.Path, "/v1/oauth/") }
	return gate.Config{
		Name:     "anthropic",
		InFlight: 20, // a 529 halves it for a time
		Limits: []gate.Limit{
			{Name: "requests", N: 50, Per: time.Minute, Burst: 10},
			{Name: "input", N: 30_000, Per: time.Minute, Burst: 3_000, Key: gate.ByCall},
			{Name: "output", N: 8_000, Per: time.Minute, Burst: 2_000, Key: gate.ByCall},
			{Name: "login", N: 10, Per: time.Minute, Burst: 3, Key: login}, // failed ones too
		},
		Classify: known.Anthropic,
		MaxWait:  time.Minute,
	}
}

// NewAnthropic returns a client whose calls pass the gate, as do the logins of option.WithFederationTokenProvider and
// option.WithConfig.
func NewAnthropic(g *gate.Gate, opts ...option.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]option.RequestOption{
		option.WithHTTPClient(&http.Client{Transport: g.Transport(nil)}),
		option.WithMaxRetries(0),
	}, opts...)...)
}

// AnthropicCall returns a context for one call to a class of models. The tokens are estimates.
func AnthropicCall(ctx context.Context, g *gate.Gate, class string, input, output int64) context.Context {
	return g.WithCall(ctx, gate.Call{
		Keys:  map[string]string{"requests": class, "input": class, "output": class},
		Costs: map[string]int64{"input": input, "output": output},
	})
}

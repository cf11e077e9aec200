package sdk

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/gate/known"
)

// OpenAI configures the gate of a project. The numbers are those of its account, for each model.
func OpenAI() gate.Config {
	login := func(r *http.Request) (string, bool) { return "", strings.HasPrefix(r.URL.Path, "/oauth/") }
	return gate.Config{
		Name:     "openai",
		InFlight: 50,
		Limits: []gate.Limit{
			{Name: "requests", N: 500, Per: time.Minute, Burst: 25},
			{Name: "tokens", N: 30_000, Per: time.Minute, Burst: 3_000, Key: gate.ByCall},
			{Name: "login", N: 10, Per: time.Minute, Burst: 3, Key: login}, // failed ones too
		},
		Classify: known.OpenAI,
		MaxWait:  time.Minute,
	}
}

// OpenAIOptions are for openai.NewClient, or for one of its services. All calls pass the gate, as do the logins of
// option.WithWorkloadIdentity.
func OpenAIOptions(g *gate.Gate) []option.RequestOption {
	return []option.RequestOption{
		option.WithHTTPClient(&http.Client{Transport: g.Transport(nil)}),
		option.WithMaxRetries(0),
	}
}

// OpenAICall returns a context for one call to a model. The tokens are an estimate: those of the prompt, and those of the
// longest answer.
func OpenAICall(ctx context.Context, g *gate.Gate, model string, tokens int64) context.Context {
	return g.WithCall(ctx, gate.Call{
		Keys:  map[string]string{"requests": model, "tokens": model},
		Costs: map[string]int64{"tokens": tokens},
	})
}

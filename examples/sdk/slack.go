package sdk

import (
	"context"
	"net/http"
	"path"
	"time"

	"github.com/slack-go/slack"

	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/gate/known"
)

// Slack configures the gate of an app in one workspace.
func Slack() gate.Config {
	method := func(r *http.Request) (string, bool) { return path.Base(r.URL.Path), true } // chat.postMessage
	login := func(r *http.Request) (string, bool) { return "", path.Base(r.URL.Path) == "oauth.v2.access" }
	return gate.Config{
		Name:     "slack",
		InFlight: 10,
		Limits: []gate.Limit{
			{Name: "method", Key: method}, // counts nothing, but can be held
			{Name: "channel", N: 1, Per: time.Second, Key: gate.ByCall},
			{Name: "login", N: 10, Per: time.Minute, Burst: 3, Key: login}, // failed ones too
		},
		Classify: known.Slack,
		MaxWait:  time.Minute,
	}
}

// NewSlack returns a client whose calls pass the gate.
func NewSlack(g *gate.Gate, token string, opts ...slack.Option) *slack.Client {
	return slack.New(token, append([]slack.Option{slack.OptionHTTPClient(&http.Client{Transport: g.Transport(nil)})}, opts...)...)
}

// ToChannel returns a context for one message to a channel.
func ToChannel(ctx context.Context, g *gate.Gate, channel string) context.Context {
	return g.WithCall(ctx, gate.Call{Keys: map[string]string{"channel": channel}})
}

// RenewSlack renews a token that expires, through the gate.
func RenewSlack(ctx context.Context, g *gate.Gate, id, secret, refresh string, opts ...slack.OAuthOption) (*slack.OAuthV2Response, error) {
	return slack.RefreshOAuthV2TokenContext(ctx, &http.Client{Transport: g.Transport(nil)}, id, secret, refresh, opts...)
}

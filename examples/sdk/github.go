package sdk

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v74/github"
	"golang.org/x/oauth2"

	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/gate/known"
)

// GitHub configures the gate of one user, whose tokens GitHub counts together.
func GitHub() gate.Config {
	segment := func(r *http.Request) string { // the first of the path: api.github.com/search/issues, github.com/login/oauth/access_token
		first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		return first
	}
	api := func(r *http.Request) (string, bool) { return "", segment(r) != "login" }
	core := func(r *http.Request) (string, bool) { return "", segment(r) != "login" && segment(r) != "search" }
	search := func(r *http.Request) (string, bool) { return "", segment(r) == "search" }
	login := func(r *http.Request) (string, bool) { return "", segment(r) == "login" }
	points := func(r *http.Request) int64 {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return 1
		}
		return 5
	}
	return gate.Config{
		Name:     "github",
		InFlight: 20,
		Limits: []gate.Limit{
			{Name: "core", N: 5000, Per: time.Hour, Burst: 500, Key: core},
			{Name: "search", N: 30, Per: time.Minute, Burst: 5, Key: search},
			{Name: "secondary", N: 900, Per: time.Minute, Key: api, Cost: points},
			{Name: "login", N: 10, Per: time.Minute, Burst: 3, Key: login}, // failed ones too
		},
		Classify: known.GitHub,
		MaxWait:  2 * time.Minute, // a pause of the secondary limit is a minute or more
	}
}

// NewGitHub returns a client whose calls pass the gate, as do the requests that renew its token. Set
// app.Endpoint.AuthStyle to oauth2.AuthStyleInParams: with the default, a login that fails can be sent twice.
func NewGitHub(g *gate.Gate, app *oauth2.Config, token *oauth2.Token) *github.Client {
	gated := &http.Client{Transport: g.Transport(nil)}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, gated) // for the calls and for the renewals
	client := github.NewClient(app.Client(ctx, token))
	client.DisableRateLimitCheck = true // otherwise it fails calls that the gate would delay
	return client
}

package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-github/v74/github"
	"github.com/openai/openai-go/v3/auth"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/slack-go/slack"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v82"
	"golang.org/x/oauth2"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/examples/sdk"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/gate"
)

// Every transport of these tests is a clone of http.DefaultTransport, and dials servers in memory, so that the tests can be in bubbles.
var (
	networks sync.Map // *resiltest.Network by address
	ports    atomic.Int32
)

func TestMain(m *testing.M) {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		n, ok := networks.Load(addr)
		if !ok {
			return nil, fmt.Errorf("no test serves %s", addr)
		}
		return n.(*resiltest.Network).DialContext(ctx, network, addr)
	}
	tr := http.DefaultTransport.(*http.Transport)
	tr.DialContext, tr.DialTLSContext = dial, dial
	m.Run()
}

// A vendor refuses its first calls, each of which begins a pause, and every call that arrives during a pause.
type vendor struct {
	refusals int
	pause    time.Duration
	refuse   func(left time.Duration) answer
	accept   answer

	mu     sync.Mutex
	until  time.Time
	calls  map[string]int // by path
	inside int            // calls that arrived during a pause
}

// An answer has a status, header fields, and a body.
type answer struct {
	status int
	fields string // "Name: value", one a line
	body   string
}

// serve starts the vendor, and returns its URL.
func (v *vendor) serve(t *testing.T) (url string) {
	t.Helper()
	addr, n := fmt.Sprintf("localhost:%d", ports.Add(1)), resiltest.NewNetwork()
	networks.Store(addr, n)
	networks.Store("sts."+addr, n)
	v.calls = map[string]int{}
	resiltest.Serve(t, n, v)
	return "http://" + addr
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, a := time.Now(), v.accept
	v.calls[r.URL.Path]++
	switch {
	case now.Before(v.until):
		v.inside++
		a = v.refuse(v.until.Sub(now))
	case v.refusals > 0:
		v.refusals--
		v.until = now.Add(v.pause)
		a = v.refuse(v.pause)
	}
	if w.Header().Set("Content-Type", "application/json"); strings.HasPrefix(a.body, "<") {
		w.Header().Set("Content-Type", "text/xml")
	}
	for field := range strings.Lines(a.fields) {
		name, value, _ := strings.Cut(strings.TrimSpace(field), ": ")
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// all returns the number of all calls.
func (v *vendor) all() (n int) {
	for _, calls := range v.calls {
		n += calls
	}
	return n
}

type (
	caller = func(context.Context) error
	gated  = func(g *gate.Gate, url string) caller
)

// A row is an SDK over a gate, beside the answers of its vendor.
type row struct {
	config gate.Config
	pause  time.Duration
	refuse func(left time.Duration) answer
	accept string
	client gated
	own    bool // the attempts are those of the SDK

	// defaults is the SDK without a gate. Of its calls, failed fail, and inside arrive during the pause. It can be nil.
	defaults       func(url string) caller
	failed, inside int
}

func (r row) vendor(refusals int) *vendor {
	return &vendor{refusals: refusals, pause: r.pause, refuse: r.refuse, accept: answer{http.StatusOK, "", r.accept}}
}

// The rows have the forms of refusals that the vendors document.
func rows() map[string]row {
	all := map[string]row{
		"anthropic-sdk-go": {
			config: sdk.Anthropic(),
			pause:  20 * time.Second,
			refuse: func(left time.Duration) answer {
				return answer{
					http.StatusTooManyRequests, "Retry-After: " + seconds(left),
					`{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`,
				}
			},
			accept: `{"id":"msg_1","type":"message","role":"assistant","content":[]}`,
			client: withAnthropic,
		},
		"aws-sdk-go-v2": {
			config: sdk.AWS(),
			own:    true,
			pause:  30 * time.Second,
			refuse: func(left time.Duration) answer {
				return answer{
					http.StatusBadRequest, fmt.Sprintf("X-Amz-Retry-After: %d", left.Milliseconds()),
					`<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>`,
				}
			},
			accept: callerIdentity,
			client: withAWS,
		},
		"stripe-go": {
			config: sdk.Stripe(),
			pause:  5 * time.Second, // which Stripe does not tell
			refuse: func(time.Duration) answer {
				return answer{
					http.StatusTooManyRequests, "Stripe-Rate-Limited-Reason: endpoint-rate",
					`{"error":{"type":"invalid_request_error","code":"rate_limit","message":"Too many requests"}}`,
				}
			},
			accept: `{"id":"cus_1","object":"customer"}`,
			client: func(g *gate.Gate, url string) caller {
				c := sdk.NewStripe(g, "sk_test_1", stripe.BackendConfig{URL: &url, LeveledLogger: &stripe.LeveledLogger{}})
				return func(ctx context.Context) error {
					_, err := c.V1Customers.Create(ctx, &stripe.CustomerCreateParams{Name: stripe.String("one")})
					return err
				}
			},
		},
		"slack-go": {
			config: sdk.Slack(),
			pause:  30 * time.Second,
			refuse: func(left time.Duration) answer {
				return answer{http.StatusTooManyRequests, "Retry-After: " + seconds(left), `{"ok":false,"error":"ratelimited"}`}
			},
			accept: `{"ok":true}`,
			client: func(g *gate.Gate, url string) caller {
				c, n := sdk.NewSlack(g, "xoxb-1", slack.OptionAPIURL(url+"/api/")), atomic.Int32{}
				return func(ctx context.Context) error {
					channel := fmt.Sprint("C", n.Add(1))
					_, _, err := c.PostMessageContext(sdk.ToChannel(ctx, g, channel), channel, slack.MsgOptionText("hello", false))
					return err
				}
			},
		},
	}
	reset := func(in time.Duration) int64 { return time.Now().Add(in).Unix() }
	for name, r := range map[string]row{
		"Retry-After": {pause: time.Minute, failed: 4, refuse: func(left time.Duration) answer {
			return secondary(http.StatusForbidden, fmt.Sprintf("Retry-After: %s\nX-RateLimit-Remaining: 4000\nX-RateLimit-Reset: %d",
				seconds(left), reset(55*time.Minute)))
		}},
		"Retry-After with 429": {pause: time.Minute, failed: 4, inside: 3, refuse: func(left time.Duration) answer {
			return secondary(http.StatusTooManyRequests, "Retry-After: "+seconds(left))
		}},
		"no time": {pause: time.Minute, failed: 5, refuse: func(time.Duration) answer { // the SDK waits for the other limit's reset
			return secondary(http.StatusForbidden, fmt.Sprintf("X-RateLimit-Remaining: 4000\nX-RateLimit-Reset: %d", reset(55*time.Minute)))
		}},
		"primary": {pause: 90 * time.Second, failed: 4, refuse: func(left time.Duration) answer {
			return answer{
				http.StatusForbidden, fmt.Sprintf("X-RateLimit-Remaining: 0\nX-RateLimit-Resource: core\nX-RateLimit-Reset: %d", reset(left)),
				`{"message":"API rate limit exceeded for user ID 1."}`,
			}
		}},
	} {
		r.config, r.accept = sdk.GitHub(), `{"number":1}`
		r.client = func(g *gate.Gate, url string) caller {
			return createIssue(gitHub(g, url, time.Hour))
		}
		r.defaults = func(url string) caller {
			c := github.NewClient(&http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}).WithAuthToken("token")
			c.BaseURL = core.Must(c.BaseURL.Parse(url + "/"))
			return createIssue(c)
		}
		all["go-github, "+name] = r
	}
	for name, r := range map[string]row{
		"Retry-After": {pause: 20 * time.Second, inside: 3, refuse: func(left time.Duration) answer { // full in 6 minutes
			return refusedByOpenAI("X-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 6m0s\nRetry-After: " + seconds(left))
		}},
		"milliseconds": {pause: 1500 * time.Millisecond, inside: 3, refuse: func(left time.Duration) answer {
			return refusedByOpenAI(fmt.Sprintf("Retry-After-Ms: %d\nRetry-After: %s", left.Milliseconds(), seconds(left+time.Second)))
		}},
		"reset": {pause: 8640 * time.Millisecond, failed: 4, inside: 11, refuse: func(left time.Duration) answer { // the SDK does not read it
			return refusedByOpenAI(fmt.Sprintf("X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: %v", left))
		}},
	} {
		r.config, r.accept, r.client = sdk.OpenAI(), `{"id":"resp_1","object":"response","output":[]}`, withOpenAI
		r.defaults = func(url string) caller {
			c := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
			return respond(option.WithHTTPClient(c), option.WithBaseURL(url), option.WithAPIKey("key"))
		}
		all["openai-go, "+name] = r
	}
	return all
}

const callerIdentity = "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>1</Account></GetCallerIdentityResult>" +
	"</GetCallerIdentityResponse>"

// seconds rounds up.
func seconds(d time.Duration) string { return fmt.Sprint(int((d + time.Second - 1) / time.Second)) }

func secondary(status int, fields string) answer {
	return answer{
		status, fields,
		`{"message":"You have exceeded a secondary rate limit.","documentation_url":"https://docs.github.com/rest#secondary-rate-limits"}`,
	}
}

func refusedByOpenAI(fields string) answer {
	return answer{
		http.StatusTooManyRequests, fields,
		`{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`,
	}
}

const gitHubLogin = "/login/oauth/access_token"

// gitHub returns a client with a token that expires in that time.
func gitHub(g *gate.Gate, url string, expiry time.Duration) *github.Client {
	c := sdk.NewGitHub(g, &oauth2.Config{ClientID: "id", ClientSecret: "secret", Endpoint: oauth2.Endpoint{
		TokenURL: url + gitHubLogin, AuthStyle: oauth2.AuthStyleInParams,
	}}, &oauth2.Token{AccessToken: "old", RefreshToken: "refresh", Expiry: time.Now().Add(expiry)})
	c.BaseURL = core.Must(c.BaseURL.Parse(url + "/"))
	return c
}

func createIssue(c *github.Client) caller {
	return func(ctx context.Context) error {
		_, _, err := c.Issues.Create(ctx, "o", "r", &github.IssueRequest{Title: github.Ptr("one")})
		return err
	}
}

func openAI(g *gate.Gate, url, model string, tokens int64, opts ...option.RequestOption) caller {
	call := respond(append(append(sdk.OpenAIOptions(g), option.WithBaseURL(url)), opts...)...)
	return func(ctx context.Context) error { return call(sdk.OpenAICall(ctx, g, model, tokens)) }
}

func withOpenAI(g *gate.Gate, url string) caller {
	return openAI(g, url, "gpt", 100, option.WithAPIKey("key"))
}

func respond(opts ...option.RequestOption) caller {
	c := responses.NewResponseService(opts...) // as in openai.NewClient, which takes minutes to compile
	return func(ctx context.Context) error {
		_, err := c.New(ctx, responses.ResponseNewParams{
			Model: "gpt", Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("hello")},
		})
		return err
	}
}

func anthropicCall(g *gate.Gate, url string, input, output int64, auth anthropicoption.RequestOption) caller {
	c := sdk.NewAnthropic(g, anthropicoption.WithBaseURL(url), auth)
	return func(ctx context.Context) error {
		_, err := c.Messages.New(sdk.AnthropicCall(ctx, g, "claude", input, output), anthropic.MessageNewParams{
			Model: "claude", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
		})
		return err
	}
}

func withAnthropic(g *gate.Gate, url string) caller {
	return anthropicCall(g, url, 100, 100, anthropicoption.WithAPIKey("key"))
}

func withAWS(g *gate.Gate, url string) caller {
	c := sts.NewFromConfig(sdk.NewAWS(g, aws.Config{
		Region: "eu-west-1", BaseEndpoint: &url,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		}),
	}))
	return func(ctx context.Context) error {
		_, err := c.GetCallerIdentity(ctx, nil)
		return err
	}
}

// program makes a call, three more a second later, and one a second after the pause. It returns how many calls were over by then, and how
// many fail in all.
func program(ctx context.Context, pause time.Duration, call caller) (over, failed int) {
	errs := make(chan error, 5)
	do := func() { errs <- call(ctx) }
	go do()
	time.Sleep(time.Second)
	for range 3 {
		go do()
	}
	time.Sleep(pause)
	over = len(errs)
	go do()
	for range cap(errs) {
		if <-errs != nil {
			failed++
		}
	}
	return over, failed
}

// The refused call is sent again after the pause, and no call is sent during it.
func TestPause(t *testing.T) {
	t.Parallel()
	for name, r := range rows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, v := newGate(r, r.pause), r.vendor(1)
				over, failed := program(t.Context(), r.pause, r.client(g, v.serve(t)))
				require.Zero(t, v.inside, "calls during the pause")
				require.Equal(t, 4, over, "calls soon after the pause")
				require.Zero(t, failed)
				require.Equal(t, 5+1, v.all())
			})
		})
	}
}

// With its defaults and without a gate, an SDK calls during the pause, or fails calls for which it could wait.
func TestDefaults(t *testing.T) {
	t.Parallel()
	all := rows()
	maps.DeleteFunc(all, func(_ string, r row) bool { return r.defaults == nil })
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := r.vendor(1)
				_, failed := program(t.Context(), r.pause, r.defaults(v.serve(t)))
				require.Equal(t, r.inside, v.inside, "calls during the pause")
				require.Equal(t, r.failed, failed)
			})
		})
	}
}

// If a pause is longer than MaxWait, the refused call has the SDK's error, and those that follow have the gate's.
func TestLongPause(t *testing.T) {
	t.Parallel()
	for name, r := range rows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r.config.MaxWait = time.Second
				g, v := newGate(r, r.pause), r.vendor(1)
				call := r.client(g, v.serve(t))
				err := call(t.Context())
				require.Error(t, err)
				require.Equal(t, r.own, errors.Is(err, gate.ErrLimited), "the error of another attempt: %v", err)
				rejected := g.Stats().Rejected
				err = call(t.Context())
				_, ok := errors.AsType[*gate.LimitedError](err)
				require.True(t, ok, "%v", err)
				require.ErrorIs(t, err, core.ErrRejected)
				require.Equal(t, rejected+1, g.Stats().Rejected, "the SDK has asked once")
				require.Equal(t, 1, v.all())
			})
		})
	}
}

// newGate makes a gate that holds calls for a day if it cannot read how long. Stripe does not say how long.
func newGate(r row, pause time.Duration) *gate.Gate {
	if r.config.Name != "stripe" {
		pause = 24 * time.Hour
	}
	r.config.Backoff = backoff.Constant{Delay: pause}
	return core.Must(gate.New(r.config))
}

// A failure that is no refusal is returned at once.
func TestNoRetries(t *testing.T) {
	t.Parallel()
	for name, r := range rows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				broken := answer{status: http.StatusInternalServerError, body: "{}"}
				switch r.config.Name {
				case "openai":
					broken = answer{status: http.StatusTooManyRequests, body: `{"error":{"code":"insufficient_quota"}}`}
				case "stripe": // the SDK repeats little else
					broken = answer{status: http.StatusTooManyRequests, body: `{"error":{"type":"invalid_request_error","code":"lock_timeout"}}`}
				}
				v := &vendor{refusals: 1, refuse: func(time.Duration) answer { return broken }, accept: answer{http.StatusOK, "", r.accept}}
				err := r.client(newGate(r, 0), v.serve(t))(t.Context())
				if !r.own {
					require.Error(t, err)
					require.Equal(t, 1, v.all())
					return
				}
				require.NoError(t, err)
				require.Equal(t, 2, v.all())
			})
		})
	}
}

// A pause of one limit stops no call of another one.
func TestOtherCalls(t *testing.T) {
	t.Parallel()
	type calls struct {
		config gate.Config
		fields string // of the refusal
		calls  func(g *gate.Gate, url string) (refused, other caller)
	}
	for name, c := range map[string]calls{
		"go-github, search": {
			sdk.GitHub(), "X-RateLimit-Remaining: 0\nX-RateLimit-Resource: search\nX-RateLimit-Reset: 946684830", // a bubble begins at 946684800
			func(g *gate.Gate, url string) (refused, other caller) {
				c := gitHub(g, url, time.Hour)
				return func(ctx context.Context) error {
					_, _, err := c.Search.Issues(ctx, "is:open", nil)
					return err
				}, createIssue(c)
			},
		},
		"openai-go, a model": {
			sdk.OpenAI(), "Retry-After: 30",
			func(g *gate.Gate, url string) (refused, other caller) {
				key := option.WithAPIKey("key")
				return openAI(g, url, "large", 100, key), openAI(g, url, "small", 100, key)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{
					refusals: 1,
					refuse:   func(time.Duration) answer { return answer{http.StatusTooManyRequests, c.fields, "{}"} },
					accept:   answer{http.StatusOK, "", "{}"},
				}
				refused, other := c.calls(core.Must(gate.New(c.config)), v.serve(t))
				start, done := time.Now(), make(chan error, 1)
				go func() { done <- refused(t.Context()) }()
				synctest.Wait()
				require.NoError(t, other(t.Context()))
				require.Less(t, time.Since(start), time.Second)
				require.NoError(t, <-done)
				require.Greater(t, time.Since(start), 29*time.Second)
			})
		})
	}
}

// 60 calls wait for their costs.
func TestCosts(t *testing.T) {
	t.Parallel()
	type costs struct {
		config  gate.Config
		atLeast time.Duration
		client  gated
	}
	for name, c := range map[string]costs{
		"go-github, writes": {sdk.GitHub(), 15 * time.Second, func(g *gate.Gate, url string) caller {
			return createIssue(gitHub(g, url, time.Hour))
		}},
		"openai-go": {sdk.OpenAI(), 2 * time.Minute, func(g *gate.Gate, url string) caller {
			return openAI(g, url, "gpt", 1000, option.WithAPIKey("key"))
		}},
		"anthropic-sdk-go, input": {sdk.Anthropic(), 2 * time.Minute, func(g *gate.Gate, url string) caller {
			return anthropicCall(g, url, 1000, 0, anthropicoption.WithAPIKey("key"))
		}},
		"anthropic-sdk-go, output": {sdk.Anthropic(), 8 * time.Minute, func(g *gate.Gate, url string) caller {
			return anthropicCall(g, url, 0, 1000, anthropicoption.WithAPIKey("key"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{accept: answer{http.StatusOK, "", "{}"}}
				call, start := c.client(core.Must(gate.New(c.config)), v.serve(t)), time.Now()
				for range 60 {
					require.NoError(t, call(t.Context()))
				}
				require.Greater(t, time.Since(start), c.atLeast)
			})
		})
	}
}

// The attempts of an SDK and those of the gate are multiplied. OpenAI refuses every call.
func TestAttempts(t *testing.T) {
	t.Parallel()
	type attempts struct{ retries, attempts, calls int }
	for name, c := range map[string]attempts{
		"of the gate": {0, 3, 3},
		"of the SDK":  {2, 1, 3},
		"of both":     {2, 2, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rows()["openai-go, Retry-After"]
				r.config.MaxAttempts = c.attempts
				v := r.vendor(100)
				err := openAI(newGate(r, 0), v.serve(t), "gpt", 100, option.WithAPIKey("key"), option.WithMaxRetries(c.retries))(t.Context())
				refused, ok := errors.AsType[*responses.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
				require.Zero(t, v.inside, "calls during a pause")
				require.Equal(t, c.calls, v.all())
			})
		})
	}
}

func TestAWSCodes(t *testing.T) {
	t.Parallel()
	type code struct {
		answer
		limited uint64
	}
	for name, c := range map[string]code{
		"XML":                  {answer{http.StatusServiceUnavailable, "", "<Error><Code>SlowDown</Code></Error>"}, 1},
		"JSON":                 {answer{http.StatusBadRequest, "", `{"__type": "com.amazonaws#ThrottlingException", "message": ""}`}, 1},
		"JSON without a shape": {answer{http.StatusBadRequest, "", `{"__type":"ThrottlingException"}`}, 1},
		"a header":             {answer{http.StatusBadRequest, "X-Amzn-ErrorType: TooManyRequestsException:http://a/", `{"message":""}`}, 1},
		"no throttling":        {answer{http.StatusForbidden, "", "<Error><Code>AccessDenied</Code></Error>"}, 0},
		"a code in a message":  {answer{http.StatusForbidden, "", `{"__type":"AccessDenied","message":"no Throttling"}`}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, v := core.Must(gate.New(sdk.AWS())), &vendor{accept: c.answer}
				req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, v.serve(t), nil))
				resp, err := sdk.NewAWS(g, aws.Config{}).HTTPClient.Do(req)
				require.NoError(t, err)
				defer func() { _ = resp.Body.Close() }()
				require.Equal(t, c.body, string(core.Must(io.ReadAll(resp.Body))))
				require.Equal(t, c.limited, g.Stats().Limited)
			})
		})
	}
}

// When nothing remains, the gate waits for the reset. The SDK's own check fails the call.
func TestGitHubReset(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]bool{"as the guide says": false, "with the check": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				reset := time.Now().Add(90 * time.Second)
				v := &vendor{accept: answer{
					http.StatusOK, fmt.Sprintf("X-RateLimit-Remaining: 0\nX-RateLimit-Resource: core\nX-RateLimit-Reset: %d", reset.Unix()), "{}",
				}}
				c := gitHub(core.Must(gate.New(sdk.GitHub())), v.serve(t), time.Hour)
				c.DisableRateLimitCheck = c.DisableRateLimitCheck && !check
				call := createIssue(c)
				require.NoError(t, call(t.Context()))
				err := call(t.Context())
				_, checked := errors.AsType[*github.RateLimitError](err)
				require.Equal(t, check, checked, "%v", err)
				require.Equal(t, check, time.Now().Before(reset))
			})
		})
	}
}

// A login is a call that needs a token first, and the path at which its SDK gets the token.
type login struct {
	config gate.Config
	path   string
	accept string
	client gated
}

func logins() map[string]login {
	const token = `{"ok":true,"access_token":"new","token_type":"Bearer","expires_in":28800}`
	return map[string]login{
		"go-github": {sdk.GitHub(), gitHubLogin, token, func(g *gate.Gate, url string) caller {
			return createIssue(gitHub(g, url, -time.Hour))
		}},
		"openai-go": {sdk.OpenAI(), "/oauth/token", token, func(g *gate.Gate, url string) caller {
			n, _ := networks.Load(strings.TrimPrefix(url, "http://"))
			networks.Store("auth.openai.com:443", n)
			return openAI(g, url, "gpt", 100, option.WithWorkloadIdentity(auth.WorkloadIdentity{
				IdentityProviderID: "id", ServiceAccountID: "account", Provider: identity{},
			}))
		}},
		"anthropic-sdk-go": {sdk.Anthropic(), "/v1/oauth/token", token, func(g *gate.Gate, url string) caller {
			return anthropicCall(g, url, 100, 100, anthropicoption.WithFederationTokenProvider(
				func(context.Context) (string, error) { return "jwt", nil },
				anthropicoption.FederationOptions{FederationRuleID: "fdrl_1", OrganizationID: "organization"},
			))
		}},
		"aws-sdk-go-v2": {sdk.AWS(), "/", callerIdentity, func(g *gate.Gate, url string) caller {
			return withAWS(g, strings.Replace(url, "//", "//sts.", 1))
		}},
		"slack-go": {sdk.Slack(), "/api/oauth.v2.access", token, func(g *gate.Gate, url string) caller {
			return func(ctx context.Context) error {
				_, err := sdk.RenewSlack(ctx, g, "id", "secret", "refresh", slack.OAuthOptionAPIURL(url+"/api/"))
				return err
			}
		}},
	}
}

func (l login) serve(t *testing.T, v *vendor) (call caller) {
	t.Helper()
	return l.client(core.Must(gate.New(l.config)), v.serve(t))
}

// A login that is refused is repeated after the pause, and the call is made after it. Only one test at a time can serve auth.openai.com.
func TestLoginPause(t *testing.T) {
	for name, l := range logins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{
					refusals: 1,
					pause:    30 * time.Second,
					refuse: func(left time.Duration) answer {
						return answer{http.StatusTooManyRequests, "Retry-After: " + seconds(left), `{"error":"slow_down"}`}
					},
					accept: answer{http.StatusOK, "", l.accept},
				}
				require.NoError(t, l.serve(t, v)(t.Context()))
				require.Zero(t, v.inside, "calls during the pause")
				require.Equal(t, 2, v.calls[l.path])
			})
		})
	}
}

// Logins that fail are limited to 10 a minute.
func TestFailedLogins(t *testing.T) {
	for name, l := range logins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{accept: answer{http.StatusUnauthorized, "", `{"ok":false,"error":"invalid_grant"}`}}
				call, start := l.serve(t, v), time.Now()
				for range 30 {
					require.Error(t, call(t.Context()))
				}
				require.Equal(t, map[string]int{l.path: 30}, v.calls)
				require.Greater(t, time.Since(start), 2*time.Minute)
			})
		})
	}
}

// An identity is that of a workload, for OpenAI.
type identity struct{}

func (identity) TokenType() auth.SubjectTokenType { return auth.SubjectTokenTypeJWT }

func (identity) GetToken(context.Context, auth.HTTPDoer) (string, error) { return "jwt", nil }

package sdk

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/gate"
)

// AWS configures the gate of one account. Each service of each region has pauses of its own, by its host.
func AWS() gate.Config {
	login := func(r *http.Request) (string, bool) { return "", strings.HasPrefix(r.URL.Host, "sts.") }
	return gate.Config{
		Name: "aws",
		Limits: []gate.Limit{
			{Name: "host", Key: client.Host},
			{Name: "login", N: 10, Per: time.Minute, Burst: 3, Key: login}, // failed ones too
		},
		Classify: throttled,
		Backoff:  backoff.Exponential{Delay: time.Second, Max: 20 * time.Second}, // AWS rarely gives a time

		MaxWait:     2 * time.Minute, // a signature is good for five
		MaxAttempts: 1,               // the SDK repeats calls: it signs each attempt, and its bodies have no GetBody
	}
}

// NewAWS returns a copy of cfg for clients whose calls pass the gate.
func NewAWS(g *gate.Gate, cfg aws.Config) aws.Config {
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.HTTPClient = &http.Client{Transport: g.Transport(nil), CheckRedirect: noRedirect}
	notSent := retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		if errors.Is(err, gate.ErrLimited) {
			return aws.FalseTernary
		}
		return aws.UnknownTernary
	})
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.Retryables = append([]retry.IsErrorRetryable{notSent}, o.Retryables...)
		})
	}
	return cfg
}

// throttled knows refusals by the code of the error, as the SDK does: many of them have the status 400 or 503.
func throttled(resp *http.Response, err error) gate.Signal {
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return gate.Classify(resp, err)
	}
	body, _ := io.ReadAll(resp.Body) // the gate passes 64 KiB of it, and gives it back
	s := gate.Classify(resp, nil)
	code := errorCode.FindString(resp.Header.Get("X-Amzn-ErrorType") + "\n" + string(body))
	if _, ok := retry.DefaultThrottleErrorCodes[errorCode.ReplaceAllString(code, "$1")]; ok {
		ms, _ := strconv.ParseInt(resp.Header.Get("X-Amz-Retry-After"), 10, 32) // the largest number, if it is larger
		s.Limited, s.Reason, s.Pause = true, "throttling", max(s.Pause, time.Duration(ms)*time.Millisecond)
	}
	return s
}

var errorCode = regexp.MustCompile(`(?:^|"__type"\s*:\s*"(?:[^"#]*#)?|<Code>)(\w+)`)

package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/text"
)

// A Scope is the calls that one limit of a vendor applies to.
type Scope uint8

const (
	// ScopeVendor is all calls of the dispatcher. It is the zero value, as a pause that
	// is too wide costs time, and one that is too narrow is punished.
	ScopeVendor Scope = iota
	// ScopeAccount is the calls of one account: see Config.Account.
	ScopeAccount
)

// String returns "vendor" or "account".
func (s Scope) String() string {
	switch s {
	case ScopeVendor:
		return "vendor"
	case ScopeAccount:
		return "account"
	}
	return fmt.Sprintf("Scope(%d)", uint8(s))
}

// MarshalText returns the text of String. A value without a name is an error.
func (s Scope) MarshalText() ([]byte, error) { return text.Marshal(s, ScopeAccount, badText) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (s *Scope) UnmarshalText(b []byte) error {
	return text.Unmarshal(s, ScopeAccount, b, badText)
}

func badText(field string, value any, reason string) error {
	return &core.ConfigError{Field: field, Value: value, Reason: reason}
}

// accountKey is the key of an account in the cooldown. That of the vendor is empty.
func accountKey(account string) string { return "/" + account }

func scopeOf(key string) (Scope, string) {
	if key == "" {
		return ScopeVendor, ""
	}
	return ScopeAccount, key[1:]
}

// Limited is the answer of a vendor that has refused a call because of a limit.
type Limited struct {
	// RetryAfter is the pause that the vendor asks for. If zero or negative, the vendor
	// did not say, and Config.Cooldown applies.
	RetryAfter time.Duration
	// Scope is the calls that pause.
	Scope Scope
}

// Classify is the default of Config.Classify: [ClassifyGoogleAds], [ClassifyGRPC] and
// [ClassifyHTTP], in this order.
func Classify(err error) (Limited, bool) {
	return FirstOf(ClassifyGoogleAds, ClassifyGRPC, ClassifyHTTP)(err)
}

// FirstOf returns a Config.Classify that returns the result of the first classifier that
// knows the error.
func FirstOf(classifiers ...func(error) (Limited, bool)) func(error) (Limited, bool) {
	return func(err error) (Limited, bool) {
		for _, f := range classifiers {
			if limit, ok := f(err); ok {
				return limit, true
			}
		}
		return Limited{}, false
	}
}

// A StatusError is an HTTP response that can mean a limit: see [CheckResponse].
type StatusError struct {
	StatusCode int
	Header     http.Header
	Body       []byte // of JSON, at most the first 64 KiB

	arrived time.Time
}

// Error has the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("dispatch: HTTP status %d %s", e.StatusCode, http.StatusText(e.StatusCode))
}

// CheckResponse returns a [*StatusError] for a response with the status 429 or 503, and
// otherwise nil. Call it in the function of [Do], and close the body as usual. If the body
// is JSON, it reads the start of it, which can be read again afterwards.
func CheckResponse(resp *http.Response) error {
	if resp == nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return nil
	}
	e := &StatusError{StatusCode: resp.StatusCode, Header: resp.Header, arrived: time.Now()}
	if body := resp.Body; body != nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		e.Body, _ = io.ReadAll(io.LimitReader(body, 64<<10)) // what there is of it
		resp.Body = &readAgain{io.MultiReader(bytes.NewReader(e.Body), body), body}
	}
	return e
}

type readAgain struct {
	io.Reader
	io.Closer
}

// ClassifyHTTP knows a [*StatusError]: status 429, with or without Retry-After, and status
// 503 with Retry-After.
func ClassifyHTTP(err error) (Limited, bool) {
	e, ok := errors.AsType[*StatusError](err)
	if !ok {
		return Limited{}, false
	}
	wait, told := client.RetryAfter(&http.Response{Header: e.Header}, e.arrived)
	return Limited{RetryAfter: wait}, told || e.StatusCode == http.StatusTooManyRequests
}

// ClassifyGoogleAds knows the quota errors of the Google Ads API: in a [*StatusError], as
// JSON, and in a gRPC status that has a GoogleAdsFailure. A rate scope ACCOUNT is
// [ScopeAccount]. A used up daily quota has no delay, so Config.Cooldown applies.
func ClassifyGoogleAds(err error) (Limited, bool) {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return adsJSON(e)
	}
	return adsStatus(err)
}

// adsJSON reads the error of the REST interface.
func adsJSON(e *StatusError) (limit Limited, ok bool) {
	type detail struct {
		Errors []struct {
			ErrorCode struct {
				QuotaError string `json:"quotaError"`
			} `json:"errorCode"`
			Details struct {
				Quota struct {
					RateScope  string `json:"rateScope"`
					RetryDelay string `json:"retryDelay"`
				} `json:"quotaErrorDetails"`
			} `json:"details"`
		} `json:"errors"`
	}
	var body struct {
		Error struct {
			Details []json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(e.Body, &body) != nil {
		return limit, false
	}
	for _, raw := range body.Error.Details {
		var d detail
		if json.Unmarshal(raw, &d) != nil {
			continue // a detail of another type
		}
		for _, one := range d.Errors {
			if !strings.HasPrefix(one.ErrorCode.QuotaError, "RESOURCE_") {
				continue
			}
			wait, _ := time.ParseDuration(one.Details.Quota.RetryDelay) // none is 0
			limit.merge(wait, one.Details.Quota.RateScope == "ACCOUNT", ok)
			ok = true
		}
	}
	return limit, ok
}

// merge adds another limit that the same answer reports: the longest wait, and the widest
// scope.
func (l *Limited) merge(wait time.Duration, account, more bool) {
	l.RetryAfter = max(l.RetryAfter, wait)
	switch {
	case !account:
		l.Scope = ScopeVendor
	case !more:
		l.Scope = ScopeAccount
	}
}

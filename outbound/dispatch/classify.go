package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/h2err"
	"github.com/gresil/gresil/internal/header"
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
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
func (s Scope) String() string { return text.Name(s, "vendor", "account") }

// MarshalText returns the text of String. A value without a name is an error.
func (s Scope) MarshalText() ([]byte, error) { return validate.MarshalText(s, ScopeAccount) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (s *Scope) UnmarshalText(b []byte) error {
	return validate.UnmarshalText(s, ScopeAccount, b)
}

// scopeOf returns the scope of a key in a cooldown: that of the vendor is empty, as no
// account is.
func scopeOf(key string) (Scope, string) {
	if key == "" {
		return ScopeVendor, ""
	}
	return ScopeAccount, key
}

// Limited is the answer of a vendor that has refused a call because of a limit.
type Limited struct {
	// RetryAfter is the pause that the vendor asks for. If zero or negative, the vendor
	// did not say, and Config.Cooldown applies. The classifiers of this package take a
	// zero or a date in the past for that too: a repetition at once is punished.
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
	limit   Limited // as of then, by ClassifyHTTP
	limited bool
}

// Error has the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("dispatch: HTTP status %d %s", e.StatusCode, http.StatusText(e.StatusCode))
}

// CheckResponse returns a [*StatusError] for a response with a status from 400 on, and nil for
// any other; Config.Classify decides which of these errors are a limit. A status that is a result for you, such as a 404,
// must be looked at first: in a job, an error means that the job is run again. Call it in the function of [Do], and close the body as usual. If the body
// is JSON, it reads the start of it, which can be read again afterwards; after half a second
// it does not wait for more, and Body is empty.
func CheckResponse(resp *http.Response) error {
	if e := check(resp, func(*StatusError) {}); e != nil {
		return e
	}
	return nil
}

// check is CheckResponse. It calls slow with the status and the header if the body does not come
// with them.
func check(resp *http.Response, slow func(*StatusError)) *StatusError {
	if resp == nil || resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	e := &StatusError{StatusCode: resp.StatusCode, Header: resp.Header}
	e.limit, e.limited = e.classify()
	e.arrived = time.Now() // not before: the wait can be until a time
	if body := resp.Body; body != nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		start := &readAgain{body: body, read: make(chan struct{}), closed: make(chan struct{})}
		resp.Body = start
		e.Body = start.wait(func() { slow(e) })
	}
	return e
}

// A readAgain is a body whose start is read by a goroutine, as it can stall.
type readAgain struct {
	body   io.ReadCloser
	read   chan struct{} // closed with what follows
	start  []byte
	panic  any
	all    io.Reader
	once   sync.Once
	closed chan struct{}
}

const (
	withHeader = 10 * time.Millisecond  // for so long after its header, a body counts as having come with it
	slowBody   = 500 * time.Millisecond // for so long, a body is waited for
)

// wait returns the start of the body, or nothing if it takes too long. It calls slow if the
// body does not come with its header.
func (r *readAgain) wait(slow func()) []byte {
	go func() {
		defer close(r.read)
		defer func() { r.panic = recover() }()
		r.start, _ = io.ReadAll(io.LimitReader(r.body, 64<<10)) // what there is of it
		r.all = io.MultiReader(bytes.NewReader(r.start), r.body)
	}()
	late := time.NewTimer(withHeader)
	defer late.Stop()
	select {
	case <-r.read:
	case <-late.C:
		late.Reset(slowBody - withHeader)
		slow()
		select {
		case <-r.read:
		case <-late.C:
			return nil
		}
	}
	if r.panic != nil {
		panic(r.panic) // as if the body was read here
	}
	return r.start
}

// Read reads the body from its beginning.
func (r *readAgain) Read(b []byte) (int, error) {
	select {
	case <-r.read:
	case <-r.closed:
		return 0, http.ErrBodyReadAfterClose
	}
	if r.panic != nil {
		panic(r.panic)
	}
	if r.all == nil { // the body ended its goroutine
		return 0, io.ErrUnexpectedEOF
	}
	return r.all.Read(b)
}

// Close closes the body.
func (r *readAgain) Close() error {
	r.once.Do(func() { close(r.closed) })
	return r.body.Close()
}

// ClassifyHTTP knows a [*StatusError]: the status 429, and any status from 400 on with a
// Retry-After that asks for a wait. How long is what [client.RetryAfter] reads. A stream or connection of HTTP/2 that the server ended with
// ENHANCE_YOUR_CALM counts as a 429.
func ClassifyHTTP(err error) (Limited, bool) {
	e, ok := errors.AsType[*StatusError](err)
	if !ok {
		return Limited{}, h2err.Throttled(err)
	}
	if e.arrived.IsZero() { // not of CheckResponse
		return e.classify()
	}
	return e.limit, e.limited
}

func (e *StatusError) classify() (Limited, bool) {
	fields := e.Header
	if e.StatusCode != http.StatusTooManyRequests { // the limit may be used up by this call
		fields = header.OnlyRetryAfter(fields)
	}
	wait, told := client.RetryAfter(&http.Response{StatusCode: e.StatusCode, Header: fields})
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
	type answer struct {
		Error struct {
			Details []json.RawMessage `json:"details"`
		} `json:"error"`
	}
	answers := make([]answer, 1)
	if json.Unmarshal(e.Body, &answers[0]) != nil && json.Unmarshal(e.Body, &answers) != nil { // the latter of searchStream
		return limit, false
	}
	var details []json.RawMessage
	for _, a := range answers {
		details = append(details, a.Error.Details...)
	}
	for _, raw := range details {
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

// answered reports whether err can be an answer of the vendor. An error of the network, or
// of a call that was not sent, is none.
func answered(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return false
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return false
	}
	for _, none := range [...]error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.Canceled, context.DeadlineExceeded, core.ErrRejected} {
		if errors.Is(err, none) {
			return false
		}
	}
	s := statusOf(err)
	return s.code != canceledCall && s.code != deadlineExceeded && s.code != unavailable && !s.tooLarge() // which can be of the client
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

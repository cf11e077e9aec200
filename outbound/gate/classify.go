package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/fields"
)

// A Signal is what a response, or an error, says about limits.
type Signal struct {
	// Limited reports whether the vendor has refused the call because of a limit. Then its keys are held, and the call is
	// sent again. It need not be set with Busy.
	Limited bool
	// Limit is the name of the limit that the vendor means; the key of the call in this limit is held. If it is empty, or the
	// call is not under it, the keys of the call in all of its limits are held, or if it is under none, the whole vendor.
	Limit string
	// Pause is the length of the hold. If zero, the vendor did not give it, and Config.Backoff applies. A Pause without Limited begins a hold
	// too, but the response is returned unchanged.
	Pause time.Duration

	// Busy reports whether the vendor has refused the call because too many were in flight. Half as many can be then, and the call is sent
	// again; nothing is held, whatever the Pause. If the last such change was less than a second ago, the keys of the call are held until that
	// is over. If Config.InFlight is zero, or only one call can be in flight already, it is an ordinary refusal.
	Busy bool
	// Permanent reports whether waiting does not help, as for a spent balance: nothing is held or learned, whatever the other fields are,
	// and the call is not sent again, also not by jobs and batch. If a function under Do or Stream returns an error then, that becomes a
	// core.Permanent. A retry around Transport sees the response only: its predicate has to know what it means.
	Permanent bool
	// Executed reports whether the vendor has executed the call in spite of the refusal, which it is sent again no more than with Permanent.
	// Its keys are held if Limited or Pause is set.
	Executed bool
	// Reason is a word for pages and events, such as "secondary".
	Reason string
	// Quotas are what the response says about limits, whether it is a refusal or not. They are not only advice: see [Quota].
	Quotas []Quota
}

// Classify is the default of Config.Classify. It reports a refusal because of a limit for a response with the status 429, a response with
// a Retry-After and any status from 400 on, a quota error in Google's JSON, ENHANCE_YOUR_CALM of HTTP/2, and an error that has a method
// RetryAfter() time.Duration and does not match core.ErrRejected, nor is that of a retry that ended with a rejection. After a 409, 500,
// 502 or 504 with a Retry-After the vendor may have executed the call: one that cannot be repeated (client.Idempotent) has the Pause only.
// For a quota error of Google Ads, Limit is "account" or "developer".
func Classify(resp *http.Response, err error) Signal {
	retried, ok := errors.AsType[*retry.Error](err)
	switch {
	case errors.Is(err, core.ErrRejected), ok && retried.Reason == "rejected", blame.Has[*blame.FinalError](err):
		return Signal{} // one of our mechanisms has rejected it, not the vendor, or a gate inside has found that it must not be sent again
	case err != nil:
		pause, told := core.RetryAfter(err)
		return Signal{Limited: told || blame.Throttled(err), Pause: pause}
	case resp == nil || resp.StatusCode < http.StatusBadRequest:
		return Signal{}
	}
	s := byHeader(resp)
	if resp.Body != nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		if google, ok := googleJSON(resp.Body); ok {
			google.Pause = max(google.Pause, s.Pause)
			return google
		}
	}
	return s
}

// byHeader is Classify without the body.
func byHeader(resp *http.Response) Signal {
	h := resp.Header
	if resp.StatusCode != http.StatusTooManyRequests { // other header fields can belong to a limit that did not refuse this call
		h = http.Header{"Retry-After": h["Retry-After"], "Retry-After-Ms": h["Retry-After-Ms"], "Date": h["Date"]}
	}
	pause, told := client.RetryAfter(&http.Response{StatusCode: resp.StatusCode, Header: h})
	switch resp.StatusCode {
	case http.StatusConflict, http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		told = told && (resp.Request == nil || client.Idempotent(resp.Request)) // it may have been executed
	}
	return Signal{Limited: told || resp.StatusCode == http.StatusTooManyRequests, Pause: pause}
}

// plain makes the fields agree: nothing is held if waiting does not help, and a call that found the vendor busy was refused.
func (s Signal) plain() Signal {
	if s.Permanent {
		return Signal{Permanent: true, Reason: s.Reason}
	}
	s.Limited = s.Limited || s.Busy
	return s
}

// again reports whether the call is to be sent again.
func (s Signal) again() bool { return s.Limited && !s.Executed }

// forGood reports whether nothing may send the call again.
func (s Signal) forGood() bool { return s.Permanent || s.Executed }

// googleJSON reads the errors of Google Cloud, Workspace and Ads.
func googleJSON(body io.Reader) (s Signal, ok bool) {
	type answer struct { // the names match without regard to case
		Error struct {
			Status  string
			Details []struct {
				RetryDelay string // of google.rpc.RetryInfo
				Errors     []struct {
					ErrorCode struct{ QuotaError string }
					Details   struct {
						QuotaErrorDetails struct{ RateScope, RetryDelay string }
					}
				}
			}
		}
	}
	text, _ := io.ReadAll(body) // as much as can be read
	all := make([]answer, 1)
	if json.Unmarshal(text, &all[0]) != nil && json.Unmarshal(text, &all) != nil { // searchStream answers with an array
		return s, false
	}
	more := func(delay, limit string) { // the delay is seconds, as in 57.5s, or empty
		seconds, _ := fields.ParseNumber(strings.TrimSuffix(delay, "s"))
		if s.Limited && s.Limit != limit {
			limit = "" // several limits: hold the keys of all
		}
		s = Signal{Limited: true, Limit: limit, Pause: max(s.Pause, seconds.Times(time.Second))}
	}
	for _, a := range all {
		for _, d := range a.Error.Details {
			for _, e := range d.Errors {
				if strings.HasPrefix(e.ErrorCode.QuotaError, "RESOURCE_") {
					quota := e.Details.QuotaErrorDetails
					more(quota.RetryDelay, strings.ToLower(quota.RateScope))
				}
			}
			if d.RetryDelay != "" && a.Error.Status == "RESOURCE_EXHAUSTED" {
				more(d.RetryDelay, "")
			}
		}
	}
	return s, s.Limited
}

const (
	maxPeek   = 64 << 10
	peekTime  = 5 * time.Second       // for the body that Classify reads; then it is closed
	stallTime = 10 * time.Millisecond // how long a hold waits for the body of a refusal
	stallHold = 2 * time.Second       // the trial hold while the body is read: Classify can still find that there is no limit
)

// signal classifies a response, whose body can be read again afterwards. While it waits for the body of a refusal, there is a hold.
func (s *sending) signal(resp *http.Response) Signal {
	classify := s.gate.settings().Classify
	if early := byHeader(resp); early.Limited || early.Pause > 0 {
		early.Limited, early.Pause = true, stallHold
		ctx, read := context.WithCancel(s.ctx)
		var held sync.WaitGroup
		defer held.Wait()
		defer read()
		held.Go(func() {
			for wait := stallTime; s.call.sleep(ctx, wait, nil); wait = stallHold / 4 { // so that the hold lasts until Classify has decided
				s.call.hold(early, nil)
			}
		})
	}
	return peek(resp, func(resp *http.Response) Signal { return classify(resp, nil) }).plain()
}

// peek calls f, which can read a part of the body of a response. It can be read again afterwards.
func peek[R any](resp *http.Response, f func(*http.Response) R) R {
	body := resp.Body
	if body == nil || body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		return f(resp)
	}
	var seen bytes.Buffer
	if resp.StatusCode >= http.StatusBadRequest {
		defer time.AfterFunc(peekTime, func() { _ = body.Close() }).Stop()
	}
	resp.Body = io.NopCloser(io.TeeReader(io.LimitReader(body, maxPeek), &seen))
	defer func() {
		if resp.Body = body; seen.Len() > 0 {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(&seen, body), body}
		}
	}()
	return f(resp)
}

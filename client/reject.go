package client

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
)

// Reject answers req without a call: it closes the body of req and returns a
// response with the given status and err as its text, marked so that
// [Rejected], and with it every plugin further out, sees the rejection that it
// is. Retry-After is what err asks for ([core.RetryAfter]), rounded up to at
// least a second.
//
// A plugin that returns an error in place of a response closes the body with
// [CloseBody].
func Reject(req *http.Request, status int, err error) *http.Response {
	CloseBody(req)
	sent := req.WithContext(context.WithValue(req.Context(), rejectedKey{}, err))
	sent.Body, sent.GetBody = nil, nil
	text := err.Error() + "\n"
	resp := &http.Response{
		Status:        strconv.Itoa(status) + " " + http.StatusText(status),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		Body:          &textBody{Reader: *strings.NewReader(text)},
		ContentLength: int64(len(text)),
		Request:       sent,
	}
	if wait, ok := core.RetryAfter(err); ok {
		seconds := wait / time.Second
		if wait%time.Second > 0 || seconds == 0 {
			seconds++
		}
		resp.Header.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	return resp
}

// Rejected returns the error that resp was made of by [Reject], or nil when it
// is a real response. The mark is in the context of resp.Request, so wrapping
// the body or changing the header does not lose it.
func Rejected(resp *http.Response) error {
	if resp == nil || resp.Request == nil {
		return nil
	}
	err, _ := resp.Request.Context().Value(rejectedKey{}).(error)
	return err
}

type rejectedKey struct{}

type textBody struct{ strings.Reader }

func (*textBody) Close() error { return nil }

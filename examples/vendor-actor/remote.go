package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/plugins/timeout"
)

// These are times and counts of our own, which no scale changes.
const (
	answerTime   = 10 * time.Second // for one answer
	unknownPause = 15 * time.Second // if a refusal has none
	longestPause = 24 * time.Hour
	silence      = 5   // calls in a row without an answer: the vendor cannot be reached
	sockets      = 500 // of a control, and of gresil with a lower capacity
)

// A remote is the vendor, over HTTP.
type remote struct {
	url    string
	client *http.Client
	lost   context.CancelCauseFunc

	refused    atomic.Int64 // attempts
	unanswered atomic.Int64 // calls in a row
}

func newRemote(cfg config, lost context.CancelCauseFunc) *remote {
	most := max(sockets, cfg.capacity)
	limit := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: answerTime})), timeout.ClientOptions{PerAttempt: true})
	return &remote{url: cfg.vendor, lost: lost, client: &http.Client{
		Transport:     client.New(&http.Transport{MaxConnsPerHost: most, MaxIdleConnsPerHost: most}, limit),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// report makes the call n once. The error of a refusal is a [refusal]. A request that was sent is waited for, even if ctx ends.
func (r *remote) report(ctx context.Context, account, n string) error {
	sent, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	sent = httptrace.WithClientTrace(sent, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { stop() }})
	req, err := http.NewRequestWithContext(sent, http.MethodGet, r.url+"/report?"+url.Values{"account": {account}, "n": {n}}.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := r.client.Do(req)
	switch {
	case errors.Is(err, core.ErrRejected), ctx.Err() != nil && err != nil: // it was not sent
		return err
	case err != nil:
		err = program.NoAnswer(r.url, err)
		if r.unanswered.Add(1) >= silence {
			r.lost(err)
		}
		return err
	}
	defer func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
		_ = resp.Body.Close()
	}()
	r.unanswered.Store(0)
	if signal := classify(resp, nil); signal.Limited {
		r.refused.Add(1)
		return refusal{signal.Pause}
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the vendor at %s answers %s to a call", r.url, resp.Status)
	}
	return nil
}

// A refusal is an answer that asks for a pause.
type refusal struct{ pause time.Duration }

func (refusal) Error() string { return "the vendor refuses the call: it asks for a pause" }

// RetryAfter returns the pause, which is 0 if the vendor did not say it.
func (r refusal) RetryAfter() time.Duration { return r.pause }

// classify reads X-Retry-After-Ms, and otherwise does as gate.Classify.
func classify(resp *http.Response, err error) gate.Signal {
	signal := gate.Classify(resp, err)
	if resp == nil || resp.StatusCode != http.StatusTooManyRequests {
		return signal
	}
	if ms, err := strconv.ParseFloat(resp.Header.Get("X-Retry-After-Ms"), 64); err == nil && ms >= 0 {
		signal.Pause = time.Duration(math.Ceil(max(1, min(ms, float64(longestPause.Milliseconds()))))) * time.Millisecond
	}
	return signal
}

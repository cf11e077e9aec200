package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/outbound/dispatch"
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
	return &remote{url: cfg.vendor, lost: lost, client: &http.Client{
		Transport:     &http.Transport{MaxConnsPerHost: most, MaxIdleConnsPerHost: most},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// report makes the call n once. A refusal is a [*dispatch.StatusError]. A request that was sent is
// waited for, even if ctx ends.
func (r *remote) report(ctx context.Context, account, n string) error {
	resp, err := r.get(context.WithoutCancel(ctx), "/report?"+url.Values{"account": {account}, "n": {n}}.Encode())
	if err != nil {
		if r.unanswered.Add(1) >= silence {
			r.lost(err)
		}
		return err
	}
	defer resp.close()
	r.unanswered.Store(0)
	err = dispatch.CheckResponse(resp.Response)
	if _, limited := classify(err); limited {
		r.refused.Add(1)
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the vendor at %s answers %s to a call", r.url, resp.Status)
	}
	return nil
}

// An answer is a response whose time is limited until it is closed.
type answer struct {
	*http.Response
	cancel context.CancelFunc
}

func (a answer) close() {
	_, _ = io.Copy(io.Discard, io.LimitReader(a.Body, 64<<10)) // so that the connection can be used again
	_ = a.Body.Close()
	a.cancel()
}

func (r *remote) get(ctx context.Context, path string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, http.NoBody)
	if err == nil {
		var resp *http.Response
		if resp, err = r.client.Do(req); err == nil { //nolint:bodyclose // answer.close does
			return answer{resp, cancel}, nil
		}
	}
	cancel()
	return answer{}, program.NoAnswer(r.url, err)
}

// classify reads X-Retry-After-Ms, and otherwise does as dispatch.Classify.
func classify(err error) (dispatch.Limited, bool) {
	if e, ok := errors.AsType[*dispatch.StatusError](err); ok && e.StatusCode == http.StatusTooManyRequests {
		ms, err := strconv.ParseFloat(e.Header.Get("X-Retry-After-Ms"), 64)
		if err == nil && ms >= 0 {
			longest := float64(longestPause.Milliseconds())
			return dispatch.Limited{RetryAfter: time.Duration(math.Ceil(max(1, min(ms, longest)))) * time.Millisecond}, true
		}
	}
	return dispatch.Classify(err)
}

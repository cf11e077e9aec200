package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/plugins/timeout"
)

// These are times and counts of our own, which no scale changes.
const (
	accounts     = 4                // that the calls are for, in turn
	attempts     = 20               // of a call of gresil; the control has no limit
	answerTime   = 10 * time.Second // for one answer
	unknownPause = 15 * time.Second // if a refusal has none
	longestPause = 24 * time.Hour
	silence      = 5   // calls in a row without an answer: the vendor cannot be reached
	sockets      = 500 // of the control, and of gresil with a lower capacity
)

// A caller makes calls to the vendor, over HTTP.
type caller struct {
	url  string
	http *http.Client
	lost context.CancelCauseFunc

	gate     *gate.Gate // nil for the control
	sessions *gate.Pool[string, session]
	stopLog  func()

	refused    atomic.Int64 // attempts
	unanswered atomic.Int64 // calls in a row
}

// A session is a connection of an account. (The vendor needs none: that of an SDK would be here.)
type session struct{ account string }

func newCaller(ctx context.Context, c config, lost context.CancelCauseFunc, log io.Writer) (*caller, error) {
	most := max(sockets, c.capacity)
	limit := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: answerTime})), timeout.ClientOptions{PerAttempt: true})
	network := client.New(&http.Transport{MaxConnsPerHost: most, MaxIdleConnsPerHost: most}, limit)
	k := &caller{url: c.Vendor, lost: lost, stopLog: func() {}, http: demo.NewClient(network)}
	if c.Algorithm == demo.Control {
		return k, nil
	}
	registry := &core.Registry{}
	own := gate.Config{
		Name: "vendor", Registry: registry, InFlight: c.capacity, MaxQueue: c.calls, MaxAttempts: attempts, Classify: classify,
		Limits: []gate.Limit{{Name: "vendor"}},
	}
	if c.limit > 0 {
		own.Limits, own.Slack = []gate.Limit{limitOf(c.limit, c.scale)}, max(leastSlack, time.Duration(float64(slack)/c.scale))
	}
	var err error
	if k.gate, err = gate.New(own); err != nil {
		return nil, err
	}
	k.sessions, err = gate.NewPool(k.gate, gate.PoolConfig[string, session]{
		Capacity: c.capacity,
		Dial:     func(_ context.Context, account string) (session, error) { return session{account}, nil },
	})
	if err != nil {
		return nil, err
	}
	k.http.Transport = k.gate.Transport(network)
	logged, stop := context.WithCancel(context.WithoutCancel(ctx))
	var logging sync.WaitGroup
	logging.Go(func() { _ = logs.Run(logged, registry, slog.New(slog.NewTextHandler(log, nil)), logs.Config{}) })
	k.stopLog = func() {
		stop()
		logging.Wait()
	}
	return k, nil
}

const (
	slack      = 50 * time.Millisecond // of the vendor
	leastSlack = time.Millisecond      // of our own: so late can a timer be, whatever the scale
)

// limitOf returns a limit of calls in a second of the vendor.
func limitOf(calls, scale float64) gate.Limit {
	n := max(1, math.Floor(calls))
	return gate.Limit{Name: "vendor", N: int64(n), Per: max(time.Millisecond, time.Duration(n/calls/scale*float64(time.Second)))}
}

// close ends the caller when no call is left.
func (k *caller) close(ctx context.Context) {
	if k.gate != nil {
		_ = k.gate.Close(ctx) // as documented
	}
	k.stopLog()
	k.http.CloseIdleConnections()
}

// paused says for how long the gate is held.
func (k *caller) paused() string {
	if k.gate == nil {
		return ""
	}
	for _, h := range k.gate.Holds() {
		return ", paused for " + time.Until(h.Until).Round(100*time.Millisecond).String()
	}
	return ""
}

// call makes the call n until it is served or fails: through the gate, or each time after its own wait.
func (k *caller) call(ctx context.Context, n int) error {
	account, number := "account-"+strconv.Itoa(n%accounts), strconv.Itoa(n)
	if k.gate != nil {
		_, err := gate.Do(ctx, k.sessions, account, func(ctx context.Context, s session) (struct{}, error) {
			return struct{}{}, k.send(ctx, s.account, number)
		})
		return err
	}
	for {
		err := k.send(ctx, account, number)
		refused, ok := errors.AsType[refusal](err)
		if !ok {
			return err
		}
		if refused.pause <= 0 {
			refused.pause = unknownPause
		}
		if err := demo.Sleep(ctx, refused.pause); err != nil {
			return err
		}
	}
}

// send sends a call once. The error of a refusal is a [refusal]. A request that was sent is waited for, even if ctx ends.
func (k *caller) send(ctx context.Context, account, n string) error {
	sent, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	sent = httptrace.WithClientTrace(sent, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { stop() }})
	query := url.Values{"account": {account}, "n": {n}}.Encode()
	a, err := demo.Fetch(sent, k.http, http.MethodGet, k.url+"/report?"+query, http.Header{}, nil)
	switch {
	case errors.Is(err, core.ErrRejected), ctx.Err() != nil && err != nil: // it was not sent
		return err
	case err != nil:
		err = demo.NoAnswer(k.url, err)
		if k.unanswered.Add(1) >= silence {
			k.lost(err)
		}
		return err
	}
	k.unanswered.Store(0)
	if signal := classify(a.Response, nil); signal.Limited {
		k.refused.Add(1)
		return refusal{signal.Pause}
	}
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("the vendor at %s answers %s to a call", k.url, a.Status)
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

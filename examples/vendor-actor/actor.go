package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/plugins/timeout"
)

// These are times and counts of our own, which no scale changes.
const (
	accounts     = 4                // that the calls are for, in turn
	attempts     = 20               // of a call of gresil
	answerTime   = 10 * time.Second // for one answer
	unknownPause = 15 * time.Second // of the control, if a refusal has none
	sockets      = 500              // of the control, and of gresil with a lower capacity
	leastSlack   = time.Millisecond // so late can a timer be
	patience     = 5 * time.Second  // of the control, or a minute of the vendor

	slack = 50 * time.Millisecond // of the vendor
)

// An actor makes the calls to a vendor.
type actor struct {
	config
	screen   *demo.Screen
	http     *http.Client
	gate     *gate.Gate // nil for the control
	sessions *gate.Pool[string, session]

	mu                      sync.Mutex
	served, failed, refused int   // refused are attempts
	first                   error // of the calls that failed
}

// A session is a connection of an account. (The vendor needs none: that of an SDK would be here.)
type session struct{ account string }

// open makes the client, and the gate with its pool of connections.
func (a *actor) open() (err error) {
	most := max(sockets, a.capacity)
	network := &http.Transport{MaxConnsPerHost: most, MaxIdleConnsPerHost: most}
	limit := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: answerTime})), timeout.ClientOptions{PerAttempt: true})
	a.http = &http.Client{Transport: client.New(network, limit)}
	if a.Algorithm == demo.Control {
		return nil
	}
	vendor := gate.Limit{} // that only enforces the pauses
	if a.limit > 0 {
		vendor.N = int64(max(1, a.limit))
		vendor.Per = max(time.Millisecond, a.scaled(time.Duration(float64(vendor.N)/a.limit*float64(time.Second))))
	}
	a.gate, err = gate.New(gate.Config{
		InFlight: a.capacity, Limits: []gate.Limit{vendor}, Slack: max(leastSlack, a.scaled(slack)),
		MaxQueue: a.calls, MaxAttempts: attempts, Classify: classify,
	})
	if err != nil {
		return err
	}
	a.http.Transport = client.New(network, a.gate, limit)
	a.sessions, err = gate.NewPool(a.gate, gate.PoolConfig[string, session]{
		Capacity: a.capacity,
		Dial:     func(_ context.Context, account string) (session, error) { return session{account}, nil },
	})
	return err
}

func (c config) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / c.scale) }

// run makes all calls, until ctx ends.
func (a *actor) run(ctx context.Context) error {
	if err := a.open(); err != nil {
		return err
	}
	if a.gate != nil {
		defer context.AfterFunc(ctx, func() { _ = a.gate.Close(context.WithoutCancel(ctx)) })() // calls that wait end
	}
	defer a.screen.Follow(ctx, a.progress)()
	a.offer(ctx, a.call)
	return nil
}

// offer offers each call at its time, whatever happens to earlier calls, until ctx ends, and waits for their ends.
func (a *actor) offer(ctx context.Context, call func(ctx context.Context, account string, n int) error) {
	var calls sync.WaitGroup
	defer calls.Wait()
	start := time.Now()
	for i := range a.calls {
		at := a.scaled(time.Duration(float64(i) / a.rate * float64(time.Second)))
		if early := time.Until(start.Add(at)); early > 0 {
			_ = demo.Sleep(ctx, early)
		}
		if ctx.Err() != nil {
			return
		}
		calls.Go(func() { a.end(ctx, call(ctx, "account-"+strconv.Itoa(i%accounts), i+1)) })
	}
}

// end counts the end of a call.
func (a *actor) end(ctx context.Context, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.served++
	} else if ctx.Err() == nil {
		a.failed++
		if a.first == nil {
			a.first = err
		}
	}
}

func (a *actor) progress() (done float64, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text = fmt.Sprintf("%d of %d served, %d failed, %d attempts refused", a.served, a.calls, a.failed, a.refused)
	if a.gate != nil {
		if holds := a.gate.Holds(); len(holds) > 0 {
			text += ", paused for " + time.Until(holds[0].Until).Round(100*time.Millisecond).String()
		}
	}
	return float64(a.served+a.failed) / float64(a.calls), text
}

// call makes a call until it is served or fails: through the gate, or each time after its own wait.
func (a *actor) call(ctx context.Context, account string, n int) error {
	if a.gate != nil {
		_, err := gate.Do(ctx, a.sessions, account, func(ctx context.Context, s session) (struct{}, error) {
			return struct{}{}, a.send(ctx, s.account, n)
		})
		return err
	}
	for {
		err := a.send(ctx, account, n)
		refused, ok := errors.AsType[refusal](err)
		if refused.pause <= 0 {
			refused.pause = unknownPause
		}
		if !ok || refused.pause > max(patience, a.scaled(time.Minute)) || demo.Sleep(ctx, refused.pause) != nil {
			return err
		}
	}
}

// send sends a call once. The error of a refusal is a [refusal]. A call that is sent is waited for, even if ctx ends.
func (a *actor) send(ctx context.Context, account string, n int) error {
	query := url.Values{"account": {account}, "n": {strconv.Itoa(n)}}.Encode()
	got, err := demo.Fetch(context.WithoutCancel(ctx), a.http, http.MethodGet, a.Vendor+"/report?"+query, http.Header{}, nil)
	if err != nil {
		return err
	}
	if signal := classify(got.Response, nil); signal.Limited {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.refused++
		return refusal{signal.Pause}
	}
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("the vendor at %s answers %s to a call", a.Vendor, got.Status)
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
	if resp != nil && resp.StatusCode == http.StatusTooManyRequests {
		if ms, err := strconv.Atoi(resp.Header.Get("X-Retry-After-Ms")); err == nil {
			signal.Pause = max(1, time.Duration(ms)*time.Millisecond)
		}
	}
	return signal
}

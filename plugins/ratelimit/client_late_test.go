package ratelimit_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	core_ratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/escalating"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// sender sends requests whose path is the answer: latency, status (0: an error), and the
// seconds of Retry-After.
func sender(limits *ratelimit.Client) (send func(after time.Duration, status int, retryAfter string), wait func()) {
	var wg sync.WaitGroup
	type answer struct {
		after      time.Duration
		status     int
		retryAfter string
	}
	key := struct{ name string }{"answer"}
	rt := limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
		a := req.Context().Value(key).(answer)
		time.Sleep(a.after)
		if a.status == 0 {
			return nil, errors.New("reset")
		}
		h := http.Header{}
		if a.retryAfter != "" {
			h.Set("Retry-After", a.retryAfter)
		}
		return &http.Response{StatusCode: a.status, Body: http.NoBody, Header: h, Request: req}, nil
	}))
	send = func(after time.Duration, status int, retryAfter string) {
		req := core.Must(http.NewRequest(http.MethodGet, "http://a.test/", http.NoBody))
		req = req.WithContext(context.WithValue(req.Context(), key, answer{after, status, retryAfter}))
		wg.Go(func() { _, _ = rt.RoundTrip(req) })
		synctest.Wait()
	}
	return send, wg.Wait
}

func TestEightConcurrent429sAreOneHold(t *testing.T) {
	t.Parallel()
	for name, probes := range map[string]bool{"before a hold": false, "probes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
				send, wait := sender(limits)
				begun := uint64(1)
				if probes { // three rounds of successes make room for eight
					limits.Cooldown().Hold(t.Context(), "a.test:80", time.Second)
					for _, n := range []int{1, 2, 4} {
						for range n + 1 {
							send(time.Second, http.StatusOK, "")
						}
					}
					time.Sleep(5*time.Second - 1)
					begun++
				}
				start := time.Now()
				for i := range 8 {
					send(time.Duration(100+10*i)*time.Millisecond, http.StatusTooManyRequests, "1")
				}
				time.Sleep(200 * time.Millisecond)
				require.Equal(t, begun, limits.Cooldown().Stats().Holds)
				until, held := limits.Cooldown().Until("a.test:80")
				require.True(t, held)
				if !probes {
					require.Equal(t, 1170*time.Millisecond, until.Sub(start), "the last one counts")
				}
				wait()
			})
		})
	}
}

// Probes that fail without a time to wait, one shortly after the other: the first holds the
// key, the others are about what was before.
func TestProbesThatFailTogetherHoldOnce(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, http.StatusBadGateway} {
		synctest.Test(t, func(t *testing.T) {
			limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
			send, wait := sender(limits)
			gate := limits.Cooldown()
			gate.Hold(t.Context(), "a.test:80", time.Second)
			send(0, http.StatusOK, "")
			send(100*time.Second, http.StatusOK, "") // both wait for the hold
			time.Sleep(time.Second)
			for range 5 {
				send(0, http.StatusOK, "") // one after the other, beside the long one
			}
			for i := range 5 {
				send(time.Duration(1+i)*10*time.Millisecond, status, "")
			}
			time.Sleep(time.Second)
			require.EqualValues(t, 2, gate.Stats().Holds)
			until, held := gate.Until("a.test:80")
			require.True(t, held)
			require.Equal(t, 10*time.Millisecond, time.Until(until), "a second from the first failure on")
			wait()
		})
	}
}

func TestALateAnswerDoesNotHoldAHealthyHost(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]struct {
		status     int
		retryAfter string
	}{
		"failure":             {0, ""},
		"500":                 {http.StatusInternalServerError, ""},
		"503 without a time":  {http.StatusServiceUnavailable, ""},
		"429 with a time":     {http.StatusTooManyRequests, "60"},
		"503 with a time":     {http.StatusServiceUnavailable, "60"},
		"429 that gives none": {http.StatusTooManyRequests, ""},
	} {
		for when, probe := range map[string]bool{"of before the hold": false, "of an earlier probe": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				for _, idle := range []time.Duration{time.Second, 5 * time.Second} { // recovered, or only over for long
					synctest.Test(t, func(t *testing.T) {
						limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
						send, wait := sender(limits)
						gate := limits.Cooldown()
						if probe {
							gate.Hold(t.Context(), "a.test:80", time.Second)
							time.Sleep(time.Second)
						}
						send(20*time.Second, late.status, late.retryAfter)
						if probe { // it has the only slot
							gate.Hold(t.Context(), "a.test:80", time.Second)
						} else {
							send(0, http.StatusTooManyRequests, "1")
						}
						before := gate.Stats().Holds
						time.Sleep(idle)
						send(0, http.StatusOK, "")
						send(0, http.StatusOK, "")
						require.Zero(t, gate.Stats().Keys, "the host has recovered")
						wait()
						require.Equal(t, before, gate.Stats().Holds)
						_, held := gate.Until("a.test:80")
						require.False(t, held)
					})
				}
			})
		}
	}
}

// 60 requests in flight to a vendor of 100 a second, whose 429 can be the answer to a request
// of the ramp that comes after the ramp's end.
func TestNoRequestInsideAToldPause(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			v := escalating.NewTelling(seed)
			limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limit: core_ratelimit.PerSecond(1000), MaxWait: time.Hour}))
			c := &http.Client{Transport: limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
				if wait := v.Call(); wait > 0 {
					return &http.Response{StatusCode: http.StatusTooManyRequests, Header: after("1"), Body: http.NoBody, Request: req}, nil
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
			}))}
			var wg sync.WaitGroup
			for range 60 {
				wg.Go(func() {
					for range 50 {
						resp, err := c.Get("http://a.test/")
						require.NoError(t, err)
						require.NoError(t, resp.Body.Close())
					}
				})
			}
			wg.Wait()
			require.Positive(t, v.Counts().Refused)
			require.Zero(t, v.Counts().Inside, "seed %d: %+v", seed, v.Counts())
		})
	}
}

// A 429 of a request that was sent before the hold says how long to wait: that is about
// now as long as the hold lasts, and extends it.
func TestALate429ExtendsAHoldThatLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
		send, wait := sender(limits)
		send(3*time.Second, http.StatusTooManyRequests, "30")
		send(2*time.Second, http.StatusInternalServerError, "")
		send(time.Second, http.StatusTooManyRequests, "5")
		wait()
		until, held := limits.Cooldown().Until("a.test:80")
		require.True(t, held)
		require.Equal(t, 30*time.Second, time.Until(until))
		require.EqualValues(t, 1, limits.Cooldown().Stats().Holds)
	})
}

func TestAHoldOfAnotherKeyMakesNoAnswerLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
		send, wait := sender(limits)
		send(20*time.Second, http.StatusTooManyRequests, "60")
		gate := limits.Cooldown()
		for i := range 10 {
			gate.Hold(t.Context(), strconv.Itoa(i), time.Second)
		}
		time.Sleep(time.Second)
		for i := range 10 {
			p := core.Must(gate.Acquire(t.Context(), strconv.Itoa(i)))
			p.Done(core.Success)
		}
		require.Zero(t, gate.Stats().Keys)
		wait()
		_, held := gate.Until("a.test:80")
		require.True(t, held)
	})
}

// A listener that ends its goroutine, and with it the request, leaves nothing open and keeps no
// slot.
func TestListenerThatEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"Held":     "calls are held back",
		"Resumed":  "calls are made again",
		"Waited":   "call was held back",
		"Rejected": "call rejected, since the key is held",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listen := false
				limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
					if listen && e.Text == text {
						runtime.Goexit()
					}
				})}))
				gate := limits.Cooldown()
				status := http.StatusOK
				if name == "Held" {
					status = http.StatusTooManyRequests
				}
				hold := 2 * time.Second
				if name == "Rejected" {
					hold = time.Minute
				}
				gate.Hold(t.Context(), "a.test:80", hold)
				listen = true
				upload, answer := resiltest.NewBody("upload"), resiltest.NewBody("answer")
				rt := limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
					_ = req.Body.Close()
					return &http.Response{StatusCode: status, Header: after("1"), Body: answer}, nil
				}))
				var wg sync.WaitGroup
				returned := false
				wg.Go(func() {
					_, _ = rt.RoundTrip(core.Must(http.NewRequest(http.MethodPut, "http://a.test/", upload)))
					returned = true
				})
				wg.Wait()
				listen = false
				require.False(t, returned)
				require.Equal(t, 1, upload.Closes())
				if name == "Held" || name == "Resumed" { // it was sent
					require.Equal(t, 1, answer.Closes())
				}
				until, _ := gate.Until("a.test:80")
				time.Sleep(time.Until(until))
				p, err := gate.Acquire(t.Context(), "a.test:80")
				require.NoError(t, err)
				require.Zero(t, p.Waited(), "no slot is taken")
				require.Zero(t, gate.Stats().Waiting)
			})
		})
	}
}

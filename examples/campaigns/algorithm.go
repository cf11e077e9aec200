package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/stores/redisstore"
)

const (
	slack     = 50 * time.Millisecond // of a permit
	skew      = 20 * time.Millisecond // of two calls on their way
	storeTime = 2 * time.Second       // for a reply of Redis: workers can stall
	patience  = 30 * time.Second      // of a call without a permit, while Redis is unavailable
	again     = 100 * time.Millisecond
)

// errStopped is the error of a call that was not sent because the worker stops.
var errStopped = errors.New("the worker stops")

// An algorithm makes calls.
type algorithm struct {
	call   func(n int) error
	checks func() (all, stale uint64) // decisions of the limiter, and permits that were not used
	stop   func()                     // the calls that are not sent yet return errStopped
}

func newAlgorithm(w *worker) (algorithm, error) {
	stopped := make(chan struct{})
	stop := func() { close(stopped) }
	naive := algorithm{
		call:   func(n int) error { return w.send(w.wire, n) },
		checks: func() (all, stale uint64) { return 0, 0 },
		stop:   stop,
	}
	if w.Algorithm == "naive" {
		return naive, nil
	}
	logging.Disable() // go-redis would log each connection that fails
	var client *redis.Client
	if w.Redis != "" {
		client = redis.NewClient(&redis.Options{Addr: w.Redis, PoolTimeout: time.Minute})
	}
	if w.Algorithm == "article" {
		return newArticle(stopped, stop, w, client), nil
	}
	return newPaced(stopped, stop, w, client)
}

// newPaced returns the algorithm gresil.
func newPaced(stopped <-chan struct{}, stop func(), w *worker, client *redis.Client) (algorithm, error) {
	cfg := pace.Config{
		Name: "campaigns", Rates: []pace.Rate{{Calls: int64(w.CPS), Per: time.Second}}, Slack: slack, Skew: skew,
		Fair: w.campaignOf, Key: func(*http.Request) string { return w.Vendor },
	}
	var store *redisstore.Store
	if client != nil {
		var err error
		if store, err = redisstore.New(client, redisstore.Config{Mode: redisstore.Coalesced, Timeout: storeTime}); err != nil {
			return algorithm{}, err
		}
		if err := store.Check(context.Background()); err != nil {
			return algorithm{}, err
		}
		cfg.Store = store
	}
	p, err := pace.New(cfg)
	if err != nil {
		return algorithm{}, err
	}
	paced := p.Transport(w.wire)
	return algorithm{
		call: func(n int) error {
			return untilDecided(stopped, func() error { return w.send(paced, n) })
		},
		checks: func() (all, stale uint64) {
			s := p.Stats()
			if store != nil {
				return store.Stats().Decided, s.Stale
			}
			return s.Permits + s.Stale, s.Stale
		},
		stop: func() {
			stop()
			_ = p.Close() // always nil
		},
	}, nil
}

// untilDecided repeats a call that was not made because the store failed.
func untilDecided(stopped <-chan struct{}, call func() error) error {
	for start := time.Now(); ; {
		err := call()
		if err == nil || !errors.Is(err, core.ErrRejected) || time.Since(start) > patience {
			return err
		}
		if err := sleep(stopped, again); err != nil {
			return err
		}
	}
}

// count is the check of the article: an atomic step counts the calls of each second of Redis, but not
// more than the limit. It reports whether the call may be made.
const count = `
local key = KEYS[1] .. ':' .. redis.call('TIME')[1]
if tonumber(redis.call('GET', key) or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('INCR', key)
redis.call('EXPIRE', key, 2)
return 1`

// The article delays a call above the limit for a random number of whole seconds.
const leastDelay, mostDelay = 60, 120

func delay() time.Duration {
	return time.Duration(leastDelay+rand.IntN(mostDelay-leastDelay+1)) * time.Second //nolint:gosec // no secret
}

// newArticle returns the algorithm of the article.
func newArticle(stopped <-chan struct{}, stop func(), w *worker, client *redis.Client) algorithm {
	var checks atomic.Uint64
	return algorithm{
		call: func(n int) error {
			for {
				allowed, err := client.Eval(context.Background(), count, []string{"campaigns:article:" + w.Vendor}, w.CPS).Int()
				checks.Add(1)
				switch {
				case err != nil:
					return err
				case allowed == 1:
					return w.send(w.wire, n)
				}
				w.say("later %d", n)
				if err := sleep(stopped, delay()); err != nil {
					return err
				}
			}
		},
		checks: func() (all, stale uint64) { return checks.Load(), 0 },
		stop:   stop,
	}
}

// sleep returns errStopped if the worker stops first.
func sleep(stopped <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-stopped:
		return errStopped
	}
}

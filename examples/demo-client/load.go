package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/examples/internal/demo"
)

// A clock bounds the time of the limiter: it was limiter at some moment between
// before and after, of the time here.
type clock struct{ limiter, before, after time.Time }

func (c clock) earliest(t time.Time) time.Time { return c.limiter.Add(t.Sub(c.after)) }
func (c clock) latest(t time.Time) time.Time   { return c.limiter.Add(t.Sub(c.before)) }

// newClock reads the time of a Redis. Without one, limiters use the time of this process.
func newClock(ctx context.Context, addr string) (clock, error) {
	if addr == "" {
		now := time.Now()
		return clock{now, now, now}, nil
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	err := client.Ping(ctx).Err() // so that there is a connection
	c := clock{before: time.Now()}
	if err == nil {
		c.limiter, err = client.Time(ctx).Result()
	}
	c.after = time.Now()
	return c, errors.Join(err, client.Close())
}

// A grant is a request that passed. It was decided in one of the seconds from first to last, of
// the limiter: the second in which it was sent, that in which its response came, or one between.
type grant struct {
	server      int
	first, last int64
}

const (
	clientsEach = 8                     // for each server
	pause       = 10 * time.Millisecond // of a client that was refused
)

// A load asks servers for as much as they let through, in whole seconds of the limiter.
type load struct {
	clock      clock
	urls       []string
	clients    int
	begin, end time.Time
	key        string // which no other run has

	passed, refused, failed atomic.Int64

	mu     sync.Mutex
	grants []grant
	first  error     // of what failed
	ended  time.Time // at end, or before
}

func newLoad(c clock, urls []string, duration time.Duration) *load {
	second := c.latest(time.Now()).Truncate(time.Second).Add(time.Second)
	return &load{
		clock: c, urls: urls, clients: clientsEach * len(urls), key: "cluster-" + rand.Text(),
		begin: c.after.Add(second.Sub(c.limiter)),
		end:   c.before.Add(second.Add(duration).Sub(c.limiter)),
	}
}

// from is the first second of the load, to is the last that it had some of.
func (l *load) from() int64 { return l.clock.earliest(l.begin).Unix() }
func (l *load) to() int64   { return l.clock.latest(l.ended).Add(-1).Unix() }

// run asks until the end, or that of ctx.
func (l *load) run(ctx context.Context, screen *demo.Screen) {
	ctx, cancel := context.WithDeadline(ctx, l.end)
	defer cancel()
	if demo.Sleep(ctx, time.Until(l.begin)) == nil {
		var wg sync.WaitGroup
		transport := &http.Transport{MaxIdleConnsPerHost: l.clients}
		defer transport.CloseIdleConnections()
		for i := range l.clients {
			wg.Go(func() { l.client(ctx, transport, i) })
		}
		stop := screen.Follow(ctx, l.begin, func() (float64, string) {
			text := fmt.Sprintf("%d passed, %d were refused", l.passed.Load(), l.refused.Load())
			return float64(time.Since(l.begin)) / float64(l.end.Sub(l.begin)), text
		})
		wg.Wait()
		stop()
	}
	l.ended = time.Now()
	if l.ended.After(l.end) {
		l.ended = l.end
	}
}

// client sends requests to one server after the other. Answers after the end are not counted.
func (l *load) client(ctx context.Context, transport http.RoundTripper, server int) {
	var grants []grant
	for ; ; server++ {
		server %= len(l.urls)
		sent := time.Now()
		status, err := l.ask(ctx, transport, l.urls[server])
		came := time.Now()
		if ctx.Err() != nil || !came.Before(l.end) {
			break
		}
		switch {
		case err == nil && status == http.StatusOK:
			l.passed.Add(1)
			grants = append(grants, grant{server, l.clock.earliest(sent).Unix(), l.clock.latest(came).Unix()})
			continue
		case err == nil && status == http.StatusTooManyRequests:
			l.refused.Add(1)
		default:
			if err == nil {
				err = fmt.Errorf("server %d: %d %s", server+1, status, http.StatusText(status))
			}
			l.fail(err)
		}
		_ = demo.Sleep(ctx, pause) // the next request finds out
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants = append(l.grants, grants...)
}

func (l *load) ask(ctx context.Context, transport http.RoundTripper, url string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/hello", http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-API-Key", l.key)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func (l *load) fail(err error) {
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = err
	}
}

// problem describes the first failure, if there was one.
func (l *load) problem() string {
	if l.first == nil {
		return ""
	}
	return fmt.Sprintf(", the first: %v", l.first)
}

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// dial opens a connection in a place that the caller has. The caller frees it after an
// error, unless it has left it to a Dial that still runs.
func (p *pool[K, C]) dial(ctx context.Context, key K) (_ *conn[K, C], left bool, _ error) {
	p.mu.Lock()
	p.dials++
	p.mu.Unlock()
	cfg := p.config()
	if cfg.Dial == nil {
		return &conn[K, C]{key: key}, false, nil
	}
	late := fmt.Errorf("dispatch: %s: no connection within %v: %w", p.name, cfg.DialTimeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.DialTimeout, late)
	defer cancel()
	start := time.Now()
	var decided atomic.Bool // the dial has ended, or its caller has left
	free := sync.OnceFunc(func() { p.free(nil) })
	done := make(chan dialed[C], 1)
	go func() {
		r := dialed[C]{panicked: true}
		defer func() {
			if r.panicked {
				r.value = recover()
			}
			if decided.CompareAndSwap(false, true) {
				done <- r
				return
			}
			defer free()
			if r.err == nil && !r.panicked {
				p.closeConn(key, r.c)
			}
		}()
		r.c, r.err = cfg.Dial(ctx, key)
		r.panicked = false
	}()
	var r dialed[C]
	select {
	case r = <-done:
	case <-ctx.Done():
		if decided.CompareAndSwap(false, true) {
			if rest := cfg.DialTimeout - time.Since(start); rest > 0 {
				time.AfterFunc(rest, free)
			} else {
				free()
			}
			return nil, true, context.Cause(ctx)
		}
		r = <-done
	}
	switch {
	case r.value != nil:
		panic(r.value) // as if Dial was called here
	case r.panicked:
		return nil, false, errDialExit
	case r.err != nil:
		return nil, false, &dialError{r.err, start}
	}
	return &conn[K, C]{key: key, c: r.c}, false, nil
}

// errDialExit is the error of a Dial that called [runtime.Goexit].
var errDialExit = errors.New("dispatch: Dial ended its goroutine")

// A dialed is the end of a Dial.
type dialed[C any] struct {
	c        C
	err      error
	panicked bool // or ended its goroutine: value is nil then
	value    any
}

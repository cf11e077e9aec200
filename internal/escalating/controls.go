package escalating

import (
	"context"
	"sync"
	"time"
)

// An Attempt sends a call once. If the vendor refuses it, wait is the pause that it asks for;
// otherwise it is 0.
type Attempt func(ctx context.Context) (wait time.Duration, err error)

// Naive repeats a call, each time after its own wait.
func Naive(ctx context.Context, attempt Attempt) error {
	for {
		wait, err := attempt(ctx)
		if wait == 0 {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// An Article is the algorithm of an actor: one loop admits calls and sleeps for a shared
// delay, which it then sets to 0. Each refused call sleeps for itself, on the connection
// that it has. Attempts are not limited, so that all calls could be served.
type Article struct {
	queue chan chan struct{}
	free  chan struct{} // a connection is a place in it

	mu    sync.Mutex
	delay time.Duration
}

// NewArticle returns an actor with so many connections. Run must run.
func NewArticle(capacity int) *Article {
	return &Article{queue: make(chan chan struct{}), free: make(chan struct{}, capacity)}
}

// Run is the loop. It ends with ctx.
func (a *Article) Run(ctx context.Context) {
	for {
		var admitted chan struct{}
		select {
		case admitted = <-a.queue:
		case <-ctx.Done():
			return
		}
		a.mu.Lock()
		delay := a.delay
		a.mu.Unlock()
		if delay > 0 {
			if sleep(ctx, delay) != nil {
				return
			}
			a.mu.Lock()
			a.delay = 0
			a.mu.Unlock()
		}
		select {
		case a.free <- struct{}{}:
			close(admitted)
		case <-ctx.Done():
			return
		}
	}
}

// Do makes a call.
func (a *Article) Do(ctx context.Context, attempt Attempt) error {
	admitted := make(chan struct{})
	select {
	case a.queue <- admitted:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-admitted:
	case <-ctx.Done():
		return context.Cause(ctx) // the loop ends with the same context
	}
	defer func() { <-a.free }()
	for {
		wait, err := attempt(ctx)
		if wait == 0 {
			return err
		}
		a.mu.Lock()
		a.delay = max(a.delay, wait)
		a.mu.Unlock()
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

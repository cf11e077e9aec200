package limits

import (
	"context"
	"errors"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/waitq"
)

// A QueueTable is a Table that keeps a queue of waiters for each key.
type QueueTable interface {
	ChangingTable
	// Wait takes permits, refuses, or waits in the queue of a key. If ctx or Done ends before, the
	// request has left the queue, and the error is the cause. If the result has permits then, they
	// were granted at that moment.
	Wait(ctx context.Context, key string, r *Request) (driver.Result, error)
}

// A Request is a cost that can wait.
type Request struct {
	Limit       func() (driver.ID, *driver.Change) // the limit in force, which can change during the wait
	Cost        int64                              // at least 1
	MaxWait     time.Duration
	NewestFirst bool
	Room        func(capacity int64) int64 // how many permits may wait
	Done        <-chan struct{}            // ends the wait
	// Queued is called if the request joins the queue; it returns the result of await.
	Queued func(estimate driver.Result, await func() (driver.Result, error)) (driver.Result, error)
}

// inForce returns the limit that applies to a request now.
func (s *Plans) inForce(req *Request) (*Plan, *driver.Change) {
	id, change := req.Limit()
	return s.All()[id], change
}

// Wait waits for a request. hold calls a function with the key and its queue, which it locks; the
// account is written after that.
func (s *Plans) Wait(ctx context.Context, req *Request, hold func(f func(q *Queue, k *Key)) error) (r driver.Result, err error) {
	var w *waiter
	err = hold(func(q *Queue, k *Key) {
		p, change := s.inForce(req)
		w, r = q.enter(k, p, change, req)
	})
	if err != nil || w == nil {
		return r, err
	}
	abandon := func() {
		_ = hold(func(q *Queue, k *Key) {
			if w.Waiting() {
				q.leave(k, w)
				q.serve(k)
			}
		})
	}
	over := false
	defer func() {
		if !over { // a goroutine that ends in Queued
			abandon()
		}
	}()
	return req.Queued(r, func() (driver.Result, error) {
		err := w.Await(ctx, req.Done, func() (wait time.Duration, over bool) {
			failed := hold(func(q *Queue, k *Key) { wait, over = q.look(k, w) })
			if failed != nil && w.Waiting() {
				w.Value.err = failed
			}
			return wait, over || failed != nil
		})
		if errors.Is(err, waitq.ErrClosed) {
			err = ErrClosed
		}
		if err != nil {
			abandon()
		} else {
			err = w.Value.err
		}
		over = true
		return w.Value.result, err
	})
}

// look serves a waiter or refuses it, if that is due, and returns the time until it must look again.
func (q *Queue) look(k *Key, w *waiter) (wait time.Duration, over bool) {
	if w.Waiting() {
		q.serve(k)
	}
	if w.Waiting() && k.Now >= w.Value.deadline {
		q.expel(k, w)
		q.serve(k)
	}
	return time.Duration(min(w.Value.next, w.Value.deadline) - k.Now), !w.Waiting()
}

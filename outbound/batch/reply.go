package batch

import (
	"context"
	"encoding/json"
	"time"
)

// Call adds a record, and waits for its result, also if another process sends it. With Unique, it is the
// result of the record that stands for both. If ctx ends, the record stays and is sent.
//
// The error is one of [Batcher.Add], that of the record when it is not sent again, [ErrDeleted],
// [ErrClosed], or the cause of ctx. With a Store, the error of a record has the text of that of Send only:
// errors.Is does not find the causes.
func (b *Batcher[T, R]) Call(ctx context.Context, record T) (R, error) {
	set, id := b.setting(), b.newID()
	if set.exempt(record) {
		return b.sendAlone(ctx, set, id, record)
	}
	replies := make(chan Reply, 1)
	b.await(id, replies)
	defer b.forget(id)
	var none R
	if _, err := b.add(ctx, set, id, []Address{{Process: b.process, Call: id}}, record); err != nil {
		return none, err
	}
	select {
	case reply := <-replies:
		result := b.resultOf(reply)
		return result.Value, result.Err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-b.done:
		return none, ErrClosed
	}
}

// await registers a Call. The first one that waits starts the goroutine that receives the replies.
func (b *Batcher[T, R]) await(id string, replies chan<- Reply) {
	b.mu.Lock()
	b.waiters[id] = replies
	start := !b.receiving
	b.receiving = true
	b.mu.Unlock()
	if start {
		go b.receive()
	}
}

func (b *Batcher[T, R]) forget(id string) {
	b.mu.Lock()
	delete(b.waiters, id)
	b.mu.Unlock()
}

// receiveWait is the longest time of one Receive: the goroutine ends at most so long after the last
// Call.
const receiveWait = time.Second

// receive passes replies on, while Calls wait.
func (b *Batcher[T, R]) receive() {
	ctx, cancel := b.lifetime(context.Background())
	defer cancel()
	for b.expected() {
		replies, err := b.store.Receive(ctx, b.method, b.process, receiveWait)
		b.mu.Lock()
		for _, reply := range replies {
			if waiter := b.waiters[reply.Call]; waiter != nil {
				delete(b.waiters, reply.Call)
				waiter <- reply // it has room for one
			}
		}
		b.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			_ = b.storeFails(ctx, err)
			_ = b.sleep(ctx, receiveWait)
		}
	}
}

// expected reports whether Calls wait, and otherwise ends the receiving.
func (b *Batcher[T, R]) expected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.receiving = len(b.waiters) > 0 && !b.closed.Load()
	return b.receiving
}

// outcome returns the result of a record as the store passes it on.
func (b *Batcher[T, R]) outcome(i int, result Result[R]) Outcome {
	if b.typed {
		return Outcome{Record: i, result: result}
	}
	if result.Err != nil {
		return Outcome{Record: i, Error: textOf(result.Err)}
	}
	var payload []byte
	err := guard("MarshalJSON", func() (err error) {
		payload, err = json.Marshal(result.Value)
		return err
	})
	if err != nil {
		return Outcome{Record: i, Error: "batch: the result cannot be encoded: " + textOf(err)}
	}
	return Outcome{Record: i, Payload: payload}
}

func (b *Batcher[T, R]) resultOf(reply Reply) (result Result[R]) {
	typed, ok := reply.result.(Result[R])
	switch {
	case reply.Deleted:
		result.Err = ErrDeleted
	case ok:
		result = typed
	case reply.Error != "":
		result.Err = remoteError(reply.Error)
	default:
		result.Err = json.Unmarshal(reply.Payload, &result.Value)
	}
	return result
}

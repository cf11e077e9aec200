package redisbatch

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/outbound/batch"
)

// Kinds of replies.
const (
	succeeded = "+"
	failed    = "-"
	deleted   = "D"
)

const (
	maxReplies      = 1000    // that Receive returns
	maxRepliesBytes = 1 << 20 // of them, but for the last one
	maxBlock        = time.Second
	nap             = 20 * time.Millisecond
)

var receiveScript = newScript("receive") //nolint:gochecknoglobals // a constant

// An address is that of the replies to a process.
type address struct{ method, process string }

// An inbox counts the replies that were returned and are not yet removed.
type inbox struct {
	seen int
	last string // how the last one begins
}

func (s *Store) inbox(method, process string) *inbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	box := s.boxes[address{method, process}]
	if box == nil {
		box = &inbox{}
		s.boxes[address{method, process}] = box
	}
	return box
}

// Receive returns replies to a process. See [batch.Store]. Replies are removed by the next Receive: none
// is lost with a connection, but one can be returned twice.
func (s *Store) Receive(ctx context.Context, method, process string, wait time.Duration) ([]batch.Reply, error) {
	box, end := s.inbox(method, process), time.Now().Add(wait)
	for {
		replies, err := s.collect(ctx, method, process, box)
		left := time.Until(end)
		switch {
		case ctx.Err() != nil && len(replies) == 0:
			return nil, nil
		case err != nil:
			return nil, err
		case len(replies) > 0 || left <= 0:
			return replies, nil
		}
		if err := s.block(ctx, keyPrefix(s.cfg.prefix(), method)+"a:"+process, left); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
}

// collect removes the replies that were returned before, and returns others.
func (s *Store) collect(ctx context.Context, method, process string, box *inbox) ([]batch.Reply, error) {
	found, err := s.do(ctx, receiveScript, method, 0, process, box.seen, box.last, maxReplies, maxRepliesBytes)
	if err != nil {
		return nil, err
	}
	*box = inbox{seen: len(found)}
	replies := make([]batch.Reply, 0, len(found))
	for i := range found {
		text := found.text(i)
		r, ok := readReply(text)
		if ok {
			replies = append(replies, r)
		}
		box.last = text[:min(len(text), 1+len(appendField(nil, r.Call)))]
	}
	return replies, nil
}

// block waits until there is a reply, for a second, by a command that moves it from the head of the list
// to the end of the same list. The ReadTimeout of the client does not limit it. A shorter time is slept:
// the client has no shorter wait.
func (s *Store) block(ctx context.Context, key string, wait time.Duration) error {
	if wait < maxBlock/2 {
		timer := time.NewTimer(min(wait, nap))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return nil
	}
	err := s.conns.Do(ctx, s.client, func() error {
		return s.client.BLMove(ctx, key, key, "left", "right", maxBlock).Err()
	})
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	return explain(err)
}

// readReply reads the kind, the call and the text of a reply.
func readReply(text string) (r batch.Reply, ok bool) {
	if text == "" {
		return r, false
	}
	kind := text[:1]
	r.Call, text, ok = cutField(text[1:])
	switch kind {
	case succeeded:
		r.Payload = []byte(text)
	case failed:
		r.Error = text
	default:
		r.Deleted = true
	}
	return r, ok
}

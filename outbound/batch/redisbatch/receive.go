package redisbatch

import (
	"context"
	"errors"
	"strconv"
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

// The most replies that Receive returns, and the longest that it waits in one command.
const (
	maxReplies = 1000
	maxBlock   = time.Second
)

// An address is that of the replies to a process.
type address struct{ method, process string }

// A letter counts replies that were returned and are not yet removed.
type letter struct{ seen int }

// Receive returns replies to a process. See [batch.Store]. Replies are removed by the next Receive: none
// is lost with a connection, but one can be returned twice.
func (s *Store) Receive(ctx context.Context, method, process string, wait time.Duration) ([]batch.Reply, error) {
	key := keyPrefix(s.cfg.prefix(), method) + "a:" + process
	s.mu.Lock()
	box := s.boxes[address{method, process}]
	if box == nil {
		box = &letter{}
		s.boxes[address{method, process}] = box
	}
	s.mu.Unlock()
	end := time.Now().Add(wait)
	for {
		replies, err := s.collect(ctx, key, box)
		if left := time.Until(end); err == nil && len(replies) == 0 && left > 0 && ctx.Err() == nil {
			err = s.block(ctx, key, left)
			if err == nil {
				continue
			}
		}
		switch {
		case ctx.Err() != nil && len(replies) == 0:
			return nil, nil
		case err != nil && !errors.Is(err, redis.Nil):
			return nil, explain(err)
		case len(replies) > 0 || time.Now().After(end):
			return replies, nil
		}
	}
}

// collect removes the replies that were returned before, and returns others.
func (s *Store) collect(ctx context.Context, key string, box *letter) ([]batch.Reply, error) {
	if box.seen > 0 {
		if err := s.client.LTrim(ctx, key, int64(box.seen), -1).Err(); err != nil {
			return nil, err
		}
		box.seen = 0
	}
	found, err := s.client.LRange(ctx, key, 0, maxReplies-1).Result()
	if err != nil {
		return nil, err
	}
	box.seen = len(found)
	replies := make([]batch.Reply, 0, len(found))
	for _, text := range found {
		if r, ok := readReply(text); ok {
			replies = append(replies, r)
		}
	}
	return replies, nil
}

// block waits until there is a reply, by a command that moves it from the head of the list to the
// end of the same list.
func (s *Store) block(ctx context.Context, key string, wait time.Duration) error {
	wait = min(wait, maxBlock)
	seconds := strconv.FormatFloat(max(wait.Seconds(), 0.001), 'f', 3, 64)
	return s.client.Do(ctx, "blmove", key, key, "left", "right", seconds).Err()
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

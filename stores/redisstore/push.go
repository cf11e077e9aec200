package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// pingEvery is the time without a message after which the connection is tested.
const pingEvery = 3 * time.Second // and once more for the reply

var errNoTable = errors.New("redisstore: no table is open")

// listen receives messages until ctx ends; receive does so over one connection, until that fails.
func (s *Store) listen(ctx context.Context, receive func(context.Context) (subscribed bool, err error)) {
	for failures := 1; ctx.Err() == nil; failures++ {
		if subscribed, _ := receive(ctx); subscribed {
			failures = 1
		}
		delay := time.NewTimer(again.Next(failures, 0))
		select {
		case <-delay.C:
		case <-ctx.Done():
			delay.Stop()
		}
	}
}

// receive receives the messages of all tables over one connection until it fails. Without them, holds
// are read.
func (h *sharer) receive(ctx context.Context) (subscribed bool, err error) {
	pushes, err := h.connect(ctx)
	if err != nil {
		return false, err
	}
	defer h.lost(pushes)
	err = pump(ctx, pushes, func(m any) {
		switch m := m.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				subscribed = true
				h.subscribed(pushes, m.Channel)
			}
		case *redis.Message:
			h.message(m)
		}
	})
	return subscribed, err
}

// pump passes on the messages of a connection, until it fails or ctx ends.
func pump(ctx context.Context, pushes *redis.PubSub, receive func(message any)) error {
	defer context.AfterFunc(ctx, func() { _ = pushes.Close() })()
	var silent atomic.Bool
	var watch *time.Timer
	watch = time.AfterFunc(never, func() { //nolint:contextcheck // see Receive
		if silent.Swap(true) {
			_ = pushes.Close() // nor a reply to the ping
			return
		}
		_ = pushes.Ping(over)
		watch.Reset(pingEvery)
	})
	defer watch.Stop()
	for {
		watch.Reset(pingEvery)
		m, err := pushes.Receive(over) //nolint:contextcheck // so a connection that is lost is not made anew by it
		if err != nil {
			return err
		}
		silent.Store(false)
		receive(m)
	}
}

// connect makes a connection, and subscribes it to the channels of all tables.
func (h *sharer) connect(ctx context.Context) (*redis.PubSub, error) {
	tables := h.all()
	channels := make([]string, len(tables))
	for i, t := range tables {
		channels[i] = t.name
	}
	if len(channels) == 0 {
		return nil, errNoTable
	}
	pushes, via, err := h.store.subscribe(ctx, channels...)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pushes, h.via = pushes, via
	for _, t := range tables {
		t.channelOf = pushes
	}
	return pushes, nil
}

// subscribe makes a connection to the server of the first channel, and subscribes it to all.
func (s *Store) subscribe(ctx context.Context, channels ...string) (*redis.PubSub, *node, error) {
	ctx, cancel := context.WithTimeout(ctx, s.warmTime())
	defer cancel()
	via := s.nodeOf(channels[0])
	pushes := via.processor().Subscribe(ctx)
	if err := pushes.Subscribe(ctx, channels...); err != nil {
		_ = pushes.Close()
		return nil, nil, err
	}
	return pushes, via, nil
}

// subscribe subscribes to the channels of later tables. If another server has the channels by now,
// or the server has failed, the connection is made anew.
func (h *sharer) subscribe(failed bool) {
	h.mu.Lock()
	pushes, via := h.pushes, h.via
	var names []string
	for _, t := range h.tables {
		if pushes != nil && t.channelOf != pushes {
			t.channelOf = pushes
			names = append(names, t.name)
		}
		failed = failed || !h.store.single && via != h.store.nodeOf(t.name)
	}
	h.mu.Unlock()
	switch {
	case pushes == nil:
	case failed:
		_ = pushes.Close()
	case len(names) > 0:
		_ = pushes.Subscribe(over, names...) // if it fails, so does receive
	}
}

// subscribed notes that messages of a channel come from now on. Holds from before must be read.
func (h *sharer) subscribed(pushes *redis.PubSub, channel string) {
	h.mu.Lock()
	h.epoch++
	for _, t := range h.tables {
		if t.name == channel && t.channelOf == pushes {
			t.setSubscribed(h.epoch)
		}
	}
	h.mu.Unlock()
	h.rouse()
}

// lost closes a connection, and notes that no messages come.
func (h *sharer) lost(pushes *redis.PubSub) {
	_ = pushes.Close()
	h.mu.Lock()
	if h.pushes == pushes {
		h.pushes = nil
	}
	for _, t := range h.tables {
		if t.channelOf == pushes {
			t.setSubscribed(0)
		}
	}
	h.mu.Unlock()
	h.rouse()
}

func (t *holds) setSubscribed(epoch int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subscribed, t.pushed = epoch, false
}

// message passes a message of hold.lua on.
func (h *sharer) message(m *redis.Message) {
	parts := strings.SplitN(m.Payload, " ", 4)
	if len(parts) < 4 {
		return
	}
	f := factOf(parts[3], micros(parts[1]), micros(parts[0]))
	for _, t := range h.all() {
		if t.name == m.Channel && t.sender != parts[2] {
			t.learn(f)
		}
	}
}

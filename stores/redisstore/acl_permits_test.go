package redisstore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/redisserver"
)

// TestTheACLOfBulkheads: a user with the rules of the docs shares permits, with messages for waiters.
// Without one of them it does not, and Warn or an error reports it.
func TestTheACLOfBulkheads(t *testing.T) {
	t.Parallel()
	alone, _, _, bulkheads, cluster := aclOfTheDocs(t)
	run := func(t *testing.T, missing string, servers []*redisserver.Server, connect func() redis.UniversalClient) {
		t.Helper()
		rules := slices.Concat(alone, bulkheads, cluster)
		for _, s := range servers {
			args := append([]string{"acl", "setuser", "limiter", "reset", "on", ">secret"}, slices.DeleteFunc(rules, func(r string) bool { return r == missing })...)
			_, err := s.Do(args...)
			require.NoError(t, err)
		}
		problems := make(chan error, 100)
		client := connect()
		defer func() { _ = client.Close() }()
		s := newStore(t, client, Config{Warn: func(err error) { problems <- err }})
		defer func() { _ = s.Close() }()
		if err := allPermits(s.leasing, problems); err != nil {
			problems <- err
		}
		if missing == "" {
			require.Empty(t, problems)
			return
		}
		text := (<-problems).Error()
		require.True(t, strings.Contains(text, "the server does not allow it to this user") || strings.Contains(text, "NOPERM"), text)
	}
	withoutEachRule(t, bulkheads, run)
}

// allPermits does every operation of permits. It waits for messages, unless there is a problem.
func allPermits(l *leases, problems chan error) error {
	var first error
	do := func(what string, h *holder) {
		if _, err := l.send(context.Background(), what, time.Minute, h); first == nil && err != nil {
			first = err
		}
	}
	of := &permits{l, "=vendor"}
	holders := make([]*holder, 3)
	for i := range holders {
		holders[i] = of.holder(bulkhead.Request{Key: "k", Weight: 2, Limit: func() int { return 2 }})
	}
	do("take", holders[0])
	l.wait(holders[1]) // it subscribes
	for !l.pushed.Load() && len(problems) == 0 {
		time.Sleep(time.Millisecond) // a subscription is made by a goroutine of the client
	}
	do("wait", holders[1])
	do("wait", holders[2])
	do("keep", holders[0])
	for _, h := range holders {
		do("end", h)
	}
	return first
}

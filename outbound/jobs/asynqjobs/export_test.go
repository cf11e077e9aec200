package asynqjobs

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups"
)

// ClockedGroups returns a store of groups whose clock is the key "clock" of each queue, in µs since 1970.
func ClockedGroups(client redis.UniversalClient) groups.Store {
	return &store{engine: &engine{redis: client}, script: redis.NewScript(strings.Replace(groupsText, "call('TIME')", "{0, call('GET', base .. 'clock')}", 1))}
}

// SetMostAlone sets how long a job of an engine waits for its turn to run alone, or behind one that does.
func SetMostAlone(q groups.Queue, d time.Duration) { q.(*engine).mostAlone = d } //nolint:forcetypeassert // it is one

package bench

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"golang.org/x/sync/semaphore"

	"github.com/gresil/gresil/core"
	gresil "github.com/gresil/gresil/core/bulkhead"
)

// bulkheadRows admit a call and end it, or find no permit free.
func bulkheadRows(s Sizes) []Row {
	var rows []Row
	for _, c := range []struct {
		name string
		full bool
	}{{"free", false}, {"full", true}} {
		for _, keys := range []struct {
			name string
			n    int
		}{{"", 0}, {", 1 key", 1}, {", 100,000 keys", s.Many}} {
			r := Row{Name: "bulkhead: " + c.name + keys.name, Keys: keys.n, Subjects: bulkheads(c.full)}
			if keys.n > 0 {
				r.Subjects = bulkheadsByKey(c.full, keys.n)
			}
			rows = append(rows, serialAndParallel(r)...)
		}
	}
	return rows
}

// permitsOf is a limit that is not reached, or that one call uses up.
func permitsOf(full bool) int {
	if full {
		return 1
	}
	return 1000
}

func bulkheads(full bool) []Subject {
	return []Subject{
		ours("bulkhead.Acquire", func() Work { return bulkheadCalls(full, 0) }),
		peer("x/sync/semaphore", func() Work { return semaphoreCalls(full, semaphore.NewWeighted(int64(permitsOf(full)))) }),
		peer("failsafe-go permit", func() Work { return failsafeCalls(full, bulkhead.New[any](uint(permitsOf(full)))) }),
		peer("channel", func() Work { return channelCalls(full, make(chan struct{}, permitsOf(full))) }),
	}
}

// bulkheadCalls have the key of the row, or with no keys the empty one.
func bulkheadCalls(full bool, keys int) Work {
	b := must(gresil.New(gresil.Config{Limit: permitsOf(full), MaxQueue: -1, MaxKeys: 1 << 20}))
	ctx := context.Background()
	switch {
	case full && keys == 0:
		return refusals(1, func(string) bool { _, err := b.Acquire(ctx, "", 1); return err == nil })
	case full:
		return refusals(keys, func(key string) bool { _, err := b.Acquire(ctx, key, 1); return err == nil })
	case keys == 0:
		return work(func(string) bool {
			p, err := b.Acquire(ctx, "", 1)
			if err != nil {
				return false
			}
			p.Done(core.Success)
			return true
		})
	}
	return work(func(key string) bool {
		p, err := b.Acquire(ctx, key, 1)
		if err != nil {
			return false
		}
		p.Done(core.Success)
		return true
	})
}

// refusals are calls that try refuses: the first of each key is admitted, and stays.
func refusals(keys int, try func(key string) bool) Work {
	var admitted atomic.Int64
	return work(func(key string) bool { return !try(key) || admitted.Add(1) <= int64(keys) })
}

func semaphoreCalls(full bool, s *semaphore.Weighted) Work {
	if full {
		return refusals(1, func(string) bool { return s.TryAcquire(1) })
	}
	return work(func(string) bool {
		if !s.TryAcquire(1) {
			return false
		}
		s.Release(1)
		return true
	})
}

func failsafeCalls(full bool, b bulkhead.Bulkhead[any]) Work {
	if full {
		return refusals(1, func(string) bool { return b.TryAcquirePermit() })
	}
	return work(func(string) bool {
		if !b.TryAcquirePermit() {
			return false
		}
		b.ReleasePermit()
		return true
	})
}

func channelCalls(full bool, permits chan struct{}) Work {
	try := func() bool {
		select {
		case permits <- struct{}{}:
			return true
		default:
			return false
		}
	}
	if full {
		return refusals(1, func(string) bool { return try() })
	}
	return work(func(string) bool {
		if !try() {
			return false
		}
		<-permits
		return true
	})
}

// bulkheadsByKey have a bulkhead for each key. The peers are in a sync.Map.
func bulkheadsByKey(full bool, keys int) []Subject {
	return []Subject{
		ours("bulkhead.Acquire", func() Work { return bulkheadCalls(full, keys) }),
		peer("x/sync/semaphore, sync.Map", func() Work {
			return inMap(full, keys, func() *semaphore.Weighted { return semaphore.NewWeighted(int64(permitsOf(full))) },
				func(s *semaphore.Weighted) bool { return s.TryAcquire(1) }, func(s *semaphore.Weighted) { s.Release(1) })
		}),
		peer("failsafe-go permit, sync.Map", func() Work {
			return inMap(full, keys, func() bulkhead.Bulkhead[any] { return bulkhead.New[any](uint(permitsOf(full))) },
				func(b bulkhead.Bulkhead[any]) bool { return b.TryAcquirePermit() }, func(b bulkhead.Bulkhead[any]) { b.ReleasePermit() })
		}),
	}
}

func inMap[T any](full bool, keys int, create func() T, try func(T) bool, release func(T)) Work {
	var all sync.Map
	of := func(key string) T {
		has, ok := all.Load(key)
		if !ok {
			has, _ = all.LoadOrStore(key, create())
		}
		return has.(T)
	}
	if full {
		return refusals(keys, func(key string) bool { return try(of(key)) })
	}
	return work(func(key string) bool {
		s := of(key)
		if !try(s) {
			return false
		}
		release(s)
		return true
	})
}

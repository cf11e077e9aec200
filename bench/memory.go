package bench

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// memoryRows let limiters grow to a million keys: the takes that are too long, the
// memory of the keys, and their cost to the garbage collector.
func memoryRows(s Sizes) []Row {
	one := taking{n: 1}
	row := func(name string, limit ratelimit.Limit, subjects []Subject) Row {
		subjects = append(subjects, unlike("ours, grown before", "our own, which has held as many keys before and forgot them", func() Work {
			return grown(limit, s.Million)
		}), floorOf("table of the right size", floorTake(s.Million, one).Make))
		for i := range subjects {
			subjects[i].Sample = func() ([]float64, error) { return grow(subjects[i].Make, s.Million) }
		}
		return Row{
			Name: "growth to 1,000,000 keys: " + name, Slow: true, Subjects: subjects,
			Units: []Unit{{Name: "takes over 1 ms", Least: true}, {Name: "µs of the longest take", Least: true}, {Name: "B/key"}, {Name: "ms CPU of a full GC"}, {Name: "µs pause of a full GC", Least: true}},
		}
	}
	return []Row{
		row("token bucket", ratelimit.TokenBucket(plenty, time.Second, plenty), buckets(one, s.Million)),
		row("fixed window", ratelimit.FixedWindow(plenty, time.Hour), windows(one)),
	}
}

var errFreed = errors.New("memory of another subject was freed while a million keys were taken")

// grow takes once of each of so many keys. The text of a key is made anew, as that of
// a request would be, so that a limiter that keeps it pays for it.
func grow(limiter func() Work, keys int) ([]float64, error) {
	for range 2 { // memory with a finalizer is freed by the second
		runtime.GC()
		runtime.Gosched()
	}
	var before, after, collected runtime.MemStats
	runtime.ReadMemStats(&before)
	w := limiter()
	op := w.New()
	long, longest := 0, time.Duration(0)
	for i := range keys {
		key := address(i)
		begin := time.Now()
		right := op(key)
		took := time.Since(begin)
		if !right {
			return nil, errOutcome
		}
		if took > time.Millisecond {
			long++
		}
		longest = max(longest, took)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	begin, _ := usage()
	runtime.GC()
	end, _ := usage()
	runtime.ReadMemStats(&collected)
	right := op(address(0))
	if w.Close != nil {
		w.Close()
	}
	switch {
	case !right:
		return nil, errOutcome
	case after.HeapAlloc < before.HeapAlloc:
		return nil, errFreed
	}
	return []float64{
		float64(long), float64(longest.Microseconds()),
		float64(after.HeapAlloc-before.HeapAlloc) / float64(keys), float64((end - begin).Microseconds()) / 1000,
		float64(collected.PauseTotalNs-after.PauseTotalNs) / 1000,
	}, nil
}

// grown has held so many keys.
func grown(limit ratelimit.Limit, keys int) Work {
	l := must(ratelimit.New(ratelimit.Config{Limit: limit}))
	ctx := context.Background()
	for i := range keys {
		must(l.Take(ctx, address(i), 1))
	}
	for i := range keys {
		must(0, l.Reset(ctx, address(i)))
	}
	return work(func(key string) bool {
		r, err := l.Take(ctx, key, 1)
		return err == nil && r.Allowed
	})
}

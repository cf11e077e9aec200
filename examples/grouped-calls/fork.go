package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A fork is the algorithm of a fork of sidekiq-grouping. Each option has a list in Redis. A poller in
// each process looks for lists that were not flushed for a minute, and splits the calls of a minute
// over them. The records of a list become one job, which makes its calls one after the other, and
// begins again later if a call fails.
//
// It holds the limit for a flush, not for a minute: parts are rounded up to calls, two processes can
// flush, and jobs that begin again are not counted. A part can be rounded down to no record at all.
type fork struct {
	*worker
	redis *redis.Client
	jobs  sync.WaitGroup
	free  chan struct{} // places for jobs
}

// These are times of the vendor.
const (
	pollEvery  = 3 * time.Second
	flushEvery = time.Minute
	lockTime   = time.Second
)

const (
	forkJobs  = 10   // of a process at a time
	forkSlice = 1000 // records that are pushed together
	keepTime  = time.Hour
)

func newFork(ctx context.Context, w *worker) (*fork, error) {
	client, err := newRedis(ctx, w.Redis)
	return &fork{worker: w, redis: client, free: make(chan struct{}, forkJobs)}, err
}

func (f *fork) stop() error { return f.redis.Close() }

// key returns a name of an option in Redis: of its list, its lock, or the time of its last flush.
func (f *fork) key(option, of string) string {
	return "grouped-calls:fork:" + f.Run + ":" + option + ":" + of
}

// add pushes the records.
func (f *fork) add(ctx context.Context) error {
	waiting := map[string][]any{}
	push := func(option string) error {
		key, values := f.key(option, "list"), waiting[option]
		delete(waiting, option)
		pipe := f.redis.Pipeline()
		pipe.RPush(ctx, key, values...)
		pipe.Expire(ctx, key, keepTime)
		_, err := pipe.Exec(ctx)
		return f.failed(err)
	}
	err := f.numbers(func(n int) error {
		r := newRecord(f.Run, n, f.Options)
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		waiting[r.option] = append(waiting[r.option], text)
		if len(waiting[r.option]) < forkSlice {
			return nil
		}
		return push(r.option)
	})
	for option := range waiting {
		if err == nil {
			err = push(option)
		}
	}
	return err
}

func (f *fork) failed(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	return fmt.Errorf("redis at %s: %w", f.Redis, err)
}

// run polls until ctx ends, and waits for the calls that are sent.
func (f *fork) run(ctx context.Context) error {
	defer f.jobs.Wait()
	ticker := time.NewTicker(scaled(pollEvery, f.Scale))
	defer ticker.Stop()
	for {
		if err := f.poll(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// poll flushes the lists that were not flushed for a minute.
func (f *fork) poll(ctx context.Context) error {
	now := time.Now()
	due, records, err := f.due(ctx, now)
	if err != nil || len(due) == 0 {
		return err
	}
	part := split(records, len(due), f.CallsPerMinute*f.MaxRecords)
	for _, option := range due {
		if err := f.flush(ctx, now, option, part); err != nil {
			return err
		}
	}
	return nil
}

// split returns the number of records that each of the due lists may flush: the even part, rounded down.
func split(records, due, most int) int { return min(records, most) / due }

// due returns the options that can be flushed, and the number of their records.
func (f *fork) due(ctx context.Context, now time.Time) (due []string, records int, err error) {
	for i := range f.Options {
		option := optionName(i)
		n, err := f.redis.LLen(ctx, f.key(option, "list")).Result()
		if err != nil {
			return nil, 0, f.failed(err)
		}
		last, err := f.redis.Get(ctx, f.key(option, "flushed")).Int64()
		if err := f.failed(err); err != nil {
			return nil, 0, err
		}
		if n > 0 && now.Sub(time.UnixMicro(last)) >= scaled(flushEvery, f.Scale) {
			due = append(due, option)
			records += int(n)
		}
	}
	return due, records, nil
}

// flush starts a job with the first records of an option, unless another process does at this time.
func (f *fork) flush(ctx context.Context, now time.Time, option string, part int) error {
	ours, err := f.redis.SetNX(ctx, f.key(option, "lock"), 1, scaled(lockTime, f.Scale)).Result()
	if err != nil || !ours {
		return f.failed(err)
	}
	var texts []string
	if part > 0 {
		if texts, err = f.redis.LPopCount(ctx, f.key(option, "list"), part).Result(); f.failed(err) != nil {
			return f.failed(err)
		}
	}
	records := make([]record, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &records[i]); err != nil {
			return err
		}
	}
	if len(records) > 0 {
		f.jobs.Go(func() { f.job(ctx, option, records) })
	}
	return f.failed(f.redis.Set(ctx, f.key(option, "flushed"), now.UnixMicro(), keepTime).Err())
}

// job makes the calls of a flush, all of them again if one fails.
func (f *fork) job(ctx context.Context, option string, records []record) {
	for failures := 0; ; failures++ {
		if f.attempt(ctx, option, records) == nil || !f.sleep(ctx, scaled(jobDelay(failures), f.Scale)) {
			return
		}
	}
}

// jobDelay is that of Sidekiq. It gives up after 25 failures, or 20 days.
func jobDelay(failures int) time.Duration {
	seconds := failures*failures*failures*failures + 15 + rand.IntN(10)*(failures+1) //nolint:gosec // no secret
	return time.Duration(seconds) * time.Second
}

func (f *fork) attempt(ctx context.Context, option string, records []record) error {
	select {
	case f.free <- struct{}{}:
		defer func() { <-f.free }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i := 0; i < len(records); i += f.MaxRecords {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		chunk := records[i:min(i+f.MaxRecords, len(records))]
		key := f.Run + "/" + strconv.Itoa(chunk[0].Number)
		results, err := f.call(ctx, key, option, chunk)
		if err != nil {
			return err
		}
		ok := accepted(results, len(chunk))
		f.say("served %d %s", ok, key)
		if bad := len(chunk) - ok; bad > 0 {
			f.fail(bad, errors.New("the vendor does not accept the records"))
		}
	}
	return nil
}

// sleep reports whether ctx has not ended.
func (f *fork) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

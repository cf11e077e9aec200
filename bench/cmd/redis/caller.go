package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// toldBy is the variable of the environment that makes this program a caller.
const toldBy = "GRESIL_BENCH_CALLER"

// A told is what a caller is told.
type told struct {
	Way      string
	Redis    string // its address
	Observer string // that of who is called
	Process  int
	Calls    int // of each campaign
	Begin    time.Time
}

// A report is what a caller says in the end.
type report struct {
	Attempts int64 `json:"attempts"`
}

// callBytes is the length of a call: its campaign, its number, and the time of the server at which it was
// granted.
const callBytes = 16

// caller is a process that makes its share of the calls of all campaigns.
func callerMain(text string, stdout, stderr io.Writer) int {
	var t told
	err := json.Unmarshal([]byte(text), &t)
	var r report
	if err == nil {
		r, err = t.call(context.Background())
	}
	if err == nil {
		err = json.NewEncoder(stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintf(stderr, "redis: a caller: %v\n", err)
		return 1
	}
	return 0
}

func (t told) call(ctx context.Context) (report, error) {
	way, err := findWay(t.Way)
	if err != nil {
		return report{}, err
	}
	client := redis.NewClient(&redis.Options{Addr: t.Redis, PoolTimeout: time.Minute, ReadTimeout: time.Minute})
	defer func() { _ = client.Close() }()
	ask, err := way.start(client)
	if err != nil {
		return report{}, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var (
		all      sync.WaitGroup
		attempts atomic.Int64
	)
	for k := range campaignCount {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.Observer)
		if err != nil {
			return report{}, err
		}
		c := campaign{told: t, way: way, number: k, ask: ask, conn: conn, attempts: &attempts}
		all.Go(func() {
			if err := errors.Join(c.run(ctx), conn.Close()); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	return report{Attempts: attempts.Load()}, context.Cause(ctx)
}

// A campaign is one process's share of it.
type campaign struct {
	told
	way      way
	number   int
	ask      asker
	conn     net.Conn // to the observer
	attempts *atomic.Int64
}

// run has workers make all calls, which are due at once.
func (c campaign) run(ctx context.Context) error {
	queue := make(chan int, c.Calls)
	for i := range c.Calls {
		queue <- c.Process*c.Calls + i
	}
	var (
		workers, calls sync.WaitGroup
		mu             sync.Mutex
		errs           []error
	)
	calls.Add(c.Calls)
	time.Sleep(time.Until(c.Begin))
	for range c.way.workers {
		workers.Go(func() {
			for call := range queue {
				wait, err := c.make(ctx, call)
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
				if wait > 0 {
					time.AfterFunc(wait, func() { queue <- call })
					continue
				}
				calls.Done()
			}
		})
	}
	calls.Wait()
	close(queue)
	workers.Wait()
	return errors.Join(errs...)
}

// make makes a call as soon as it is granted, or tells when it is to be tried again.
func (c campaign) make(ctx context.Context, call int) (time.Duration, error) {
	for {
		c.attempts.Add(1)
		at, wait, err := c.ask(ctx, c.number)
		switch {
		case err != nil:
			return 0, err
		case wait == 0:
			b := make([]byte, 0, callBytes)
			b = binary.BigEndian.AppendUint32(b, uint32(c.number))
			b = binary.BigEndian.AppendUint32(b, uint32(call))
			_, err := c.conn.Write(binary.BigEndian.AppendUint64(b, uint64(at)))
			return 0, err
		case c.way.reschedules:
			return wait, nil
		}
		time.Sleep(wait)
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// A crew has the workers, and gives the calls to them. It belongs to one goroutine.
type crew struct {
	order
	*dealer
	stderr  io.Writer
	start   time.Time
	events  chan event
	members []*member // that have not ended
	all     []*member
	deaths  int
	feed    func() // called once, when all workers are ready
}

// A member is a worker.
type member struct {
	*program.Worker
	number int
	ready  bool
	killed bool
	hand   *hand

	checks, stale uint64
	stall         time.Duration
}

// An event is a line that a worker has written, or its end.
type event struct {
	from  *member
	line  string
	ended bool
}

const (
	mostDeaths = 100              // of workers, beyond those that the program has killed
	drainTime  = 15 * time.Second // then a worker is killed
	silence    = 20               // calls in a row that failed: the vendor, or Redis, cannot be reached
)

// hire starts a worker.
func (c *crew) hire(ctx context.Context) error {
	m := &member{number: len(c.all) + 1, hand: c.newHand()}
	var err error
	m.Worker, err = program.StartWorker(ctx, c.order, func(line string) { c.events <- event{from: m, line: line} }, func() { c.events <- event{from: m, ended: true} })
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stderr, "worker %d: pid %d\n", m.number, m.PID())
	c.members, c.all = append(c.members, m), append(c.all, m)
	return nil
}

// handle is one event. While the crew works, a worker that has ended is replaced.
func (c *crew) handle(ctx context.Context, e event, working bool) error {
	m := e.from
	if e.ended {
		_ = m.In.Close()
		c.members = slices.DeleteFunc(c.members, func(other *member) bool { return other == m })
		if !working {
			return nil
		}
		c.fold(m.hand)
		c.deaths++
		fmt.Fprintf(c.stderr, "worker %d has ended\n", m.number)
		failed := !m.ready && m.Reason() != "" // otherwise it was killed
		if failed || c.deaths > c.kill+mostDeaths {
			return fmt.Errorf("worker %d has ended: %s", m.number, m.Reason())
		}
		if err := c.hire(ctx); err != nil {
			return err
		}
		c.dealAll()
		return nil
	}
	word, rest, _ := strings.Cut(e.line, " ")
	switch word {
	case "ready":
		m.ready = true
		if c.start.IsZero() && !slices.ContainsFunc(c.members, func(m *member) bool { return !m.ready }) {
			c.start = time.Now() // of the run
			c.feed()
		}
	case "stats":
		_, err := fmt.Sscan(rest, &m.checks, &m.stale, (*int64)(&m.stall))
		return err
	default:
		number, why, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("worker %d wrote %q", m.number, e.line)
		}
		c.note(m.hand, time.Since(c.start), word, n, why)
		if c.row >= silence {
			return fmt.Errorf("stopped: %d calls in a row failed", c.row)
		}
	}
	if working {
		c.dealAll()
	}
	return nil
}

// dealAll gives numbers to the workers that have room.
func (c *crew) dealAll() {
	if c.start.IsZero() {
		return
	}
	for _, m := range c.members {
		if !m.ready {
			continue
		}
		var text []byte
		for _, n := range c.deal(m.hand, time.Since(c.start)) {
			text = append(strconv.AppendInt(text, int64(n), 10), '\n')
		}
		if len(text) > 0 {
			_, _ = m.In.Write(text) // the end of a worker is an event
		}
	}
}

// strike kills a worker if it is time.
func (c *crew) strike(killed int) bool {
	if killed == c.kill || c.served+c.failed < c.total()*(killed+1)/(c.kill+1) {
		return false
	}
	alive := slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return !m.ready || m.killed })
	if len(alive) == 0 {
		return false // the next event
	}
	m := alive[rand.IntN(len(alive))] //nolint:gosec // no secret
	m.killed = true
	m.Kill()
	return true
}

// work makes all calls, or those until the end of ctx. The workers end with it.
func (c *crew) work(ctx context.Context, screen progress) (err error) {
	ticker := time.NewTicker(progressTime)
	defer ticker.Stop()
	defer c.dismiss(context.WithoutCancel(ctx))
	for range c.workers {
		if err := c.hire(ctx); err != nil {
			return err
		}
	}
	for killed := 0; !c.finished(); {
		select {
		case e := <-c.events:
			if err := c.handle(ctx, e, true); err != nil {
				return err
			}
			if c.strike(killed) {
				killed++
			}
		case <-ticker.C:
			screen.show(c)
			c.dealAll()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// dismiss ends the workers, and waits until their calls that are sent are over.
func (c *crew) dismiss(ctx context.Context) {
	for _, m := range c.members {
		_ = m.In.Close()
	}
	late := time.AfterFunc(drainTime, func() { c.events <- event{} })
	defer late.Stop()
	for len(c.members) > 0 {
		e := <-c.events
		if e.from == nil {
			for _, m := range c.members {
				m.Kill()
			}
			continue
		}
		_ = c.handle(ctx, e, false) // the calls count
	}
}

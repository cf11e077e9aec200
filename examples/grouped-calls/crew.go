package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// A crew has the workers, and counts their steps. It belongs to one goroutine.
type crew struct {
	order
	stderr  io.Writer
	workers []*member
	ready   int
	alive   int
	deaths  int                 // of workers, before the end
	ending  bool                // of the run
	keys    map[string]struct{} // of the calls whose records are served
	events  chan event
	start   time.Time // of the calls
	last    time.Time // at which a record was accepted

	calls   int // that were answered with 200
	refused int
	served  int       // records
	failed  int       // records that were given up
	row     int       // calls that went wrong, since one did not
	right   time.Time // of that one, or of the start
	first   string    // the error of the first of these calls or records
	stall   time.Duration
}

// A member is a worker.
type member struct {
	*program.Worker
	number int
}

// errStalled is the reason why a run is stopped.
var errStalled = fmt.Errorf("stopped, as no record was accepted for %d minutes of the vendor", patience)

// An event is a line that a worker has written, or its end.
type event struct {
	from  *member
	line  string
	ended bool
}

const (
	drainTime = 15 * time.Second // then a worker is killed

	// The vendor cannot be reached: so many calls in a row went wrong, for so long.
	silence     = 20
	silenceTime = 5 * time.Second

	// A run goes on for so long without a record that is accepted: minutes of the vendor, and a time of
	// our own; with gresil, leases too. A control could go on for hours.
	patience      = 3
	leastPatience = 5 * time.Second
)

// hire starts a worker.
func (c *crew) hire(ctx context.Context, number int) error {
	own := c.order
	own.Worker = number
	m := &member{number: number + 1}
	var err error
	m.Worker, err = program.StartWorker(ctx, own, func(line string) { c.events <- event{from: m, line: line} }, func() { c.events <- event{from: m, ended: true} })
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stderr, "process %d: pid %d\n", m.number, m.PID())
	c.workers = append(c.workers, m)
	c.alive++
	return nil
}

// handle counts one event.
func (c *crew) handle(e event) error {
	if e.ended {
		return c.bury(e.from)
	}
	word, rest, _ := strings.Cut(e.line, " ")
	number, why, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("process %d wrote %q", e.from.number, e.line)
	}
	switch word {
	case "ready":
		if c.ready++; c.ready == c.Workers {
			c.begin()
		}
	case "called":
		c.calls++
		c.row, c.right = 0, time.Now()
	case "served":
		if _, again := c.keys[why]; !again {
			c.keys[why] = struct{}{}
			c.served += n
		}
		c.last = time.Now()
	case "refused":
		c.refused++
		c.row, c.right = 0, time.Now()
	case "wrong":
		c.row++
		c.note(why)
	case "failed":
		c.failed += n
		c.note(why)
	case "stats":
		c.stall = max(c.stall, time.Duration(n))
	}
	if c.row >= silence && time.Since(c.right) > silenceTime {
		return fmt.Errorf("stopped: %d calls in a row failed", c.row)
	}
	return nil
}

// bury counts a worker that has ended. The others can take its records, if these are in Redis.
func (c *crew) bury(m *member) error {
	_ = m.In.Close()
	c.alive--
	if c.ending {
		return nil
	}
	c.deaths++
	fmt.Fprintf(c.stderr, "process %d has ended\n", m.number)
	if c.start.IsZero() || c.alive == 0 || c.Algorithm != "gresil" {
		return fmt.Errorf("process %d has ended: %s", m.number, m.Reason())
	}
	return nil
}

func (c *crew) note(why string) {
	if c.first == "" {
		c.first = why
	}
}

// begin lets the workers make their calls.
func (c *crew) begin() {
	c.start = time.Now()
	c.last, c.right = c.start, c.start
	for _, m := range c.workers {
		_, _ = io.WriteString(m.In, "go\n") // the end of a worker is an event
	}
}

func (c *crew) finished() bool { return c.served+c.failed >= c.Records }

// work adds all records, and makes all calls, or those until the end of ctx. The workers end with it.
func (c *crew) work(ctx context.Context, screen progress) error {
	ticker := time.NewTicker(progressTime)
	defer ticker.Stop()
	defer c.dismiss()
	for number := range c.Workers {
		if err := c.hire(ctx, number); err != nil {
			return err
		}
	}
	long := max(leastPatience, patience*c.minute())
	if c.Algorithm == "gresil" {
		long = max(long, 2*leaseTime)
	}
	for !c.finished() {
		select {
		case e := <-c.events:
			if err := c.handle(e); err != nil {
				return err
			}
		case <-ticker.C:
			screen.show(c)
			if !c.start.IsZero() && time.Since(c.last) > long {
				return errStalled
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// dismiss ends the workers, and waits until their calls that are sent are over.
func (c *crew) dismiss() {
	c.ending = true
	for _, m := range c.workers {
		_ = m.In.Close()
	}
	late := time.AfterFunc(drainTime, func() { c.events <- event{} })
	defer late.Stop()
	for c.alive > 0 {
		e := <-c.events
		if e.from == nil {
			for _, m := range c.workers {
				m.Kill()
			}
			continue
		}
		_ = c.handle(e) // the calls count
	}
}

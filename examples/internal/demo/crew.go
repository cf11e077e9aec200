package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Task is what the workers of a run do.
type Task interface {
	// Order returns what a worker is told at its start, as JSON.
	Order(m *Member) any
	// Feed returns the lines that a worker reads once all are ready, and one that replaces another when it is ready.
	Feed(m *Member) string
	// Hear is a line of a worker: a word, a number, and more.
	Hear(m *Member, word string, n int, rest string)
	// Fold is the end of a worker before that of the run. It reports whether another one can replace it.
	Fold(m *Member) bool
	// Progress returns how much is done, of how much, and what to show of it.
	Progress() (done, total int, text string)
}

// A Crew has the workers of a run: it hires, feeds, kills and replaces them. It belongs to one goroutine.
type Crew struct {
	Task
	Word     string // for a worker in messages
	Size     int
	Kill     int           // number of times that a worker is killed on the way
	Silence  time.Duration // for which wrong calls in a row are endured
	Patience time.Duration // for which the progress may stop; 0 is forever
	Stalled  error         // the error then
	Screen   *Screen

	Start  time.Time // when all were ready
	Last   time.Time // of the progress
	Deaths int       // of workers, before the end
	Stall  time.Duration
	First  string // the error of the first call that went wrong

	events  chan event
	members []*Member // that have not ended
	hired   int
	killed  int
	row     int       // calls that went wrong, since one did not
	right   time.Time // of that one, or of the start
}

// A Member is a worker.
type Member struct {
	Place int  // 0 to the size of the crew; that of the one that it replaces
	Again bool // it replaces another one

	*process
	ready, killed bool
}

// An event is a line that a worker has written, or its end.
type event struct {
	from  *Member
	line  string
	ended bool
}

// ErrStalled is a reason to end a run that can be judged nevertheless.
var ErrStalled = errors.New("stopped")

const (
	mostDeaths = 100 // of workers, beyond those that the program has killed
	silence    = 20  // calls in a row that went wrong: the vendor, or Redis, cannot be reached
)

// Wrong notes a call that went wrong.
func (c *Crew) Wrong(why string) {
	c.row++
	c.Note(why)
}

// Note notes an error, unless there was one before.
func (c *Crew) Note(why string) {
	c.First = cmp.Or(c.First, why)
}

// Right notes a call that did not.
func (c *Crew) Right() { c.row, c.right = 0, time.Now() }

// Work does the task, or what is done until the end of ctx. The workers end with it.
func (c *Crew) Work(ctx context.Context) error {
	c.events = make(chan event, 1024)
	ticker := time.NewTicker(drawTime)
	defer ticker.Stop()
	defer c.Screen.clear()
	defer c.dismiss()
	for place := range c.Size {
		if err := c.hire(ctx, place, false); err != nil {
			return err
		}
	}
	before := 0
	for {
		done, total, text := c.Progress()
		if done != before {
			before, c.Last = done, time.Now()
		}
		if done >= total {
			return nil
		}
		c.strike(done, total)
		select {
		case e := <-c.events:
			if err := c.handle(ctx, e); err != nil {
				return err
			}
		case <-ticker.C:
			if c.Start.IsZero() {
				continue
			}
			c.Screen.show(time.Since(c.Start), float64(done)/float64(total), text)
			if c.Patience > 0 && time.Since(c.Last) > c.Patience {
				return c.Stalled
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// hire starts a worker.
func (c *Crew) hire(ctx context.Context, place int, again bool) (err error) {
	c.hired++
	m := &Member{Place: place, Again: again}
	line := func(line string) { c.events <- event{from: m, line: line} }
	order, err := jsonText(c.Order(m))
	if err == nil {
		m.process, err = start(ctx, fmt.Sprintf("%s %d", c.Word, c.hired), line, "worker", order)
	}
	if err != nil {
		return err
	}
	go func() {
		<-m.done
		c.events <- event{from: m, ended: true}
	}()
	fmt.Fprintf(c.Screen, "%s: pid %d\n", m.name, m.cmd.Process.Pid)
	c.members = append(c.members, m)
	return nil
}

func (c *Crew) handle(ctx context.Context, e event) error {
	if e.ended {
		return c.replace(ctx, e.from)
	}
	return c.hear(e.from, e.line)
}

// hear is a line of a worker.
func (c *Crew) hear(m *Member, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	number, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("%s wrote %q", m.name, line)
	}
	switch word {
	case "ready":
		c.ready(m)
	case "stall":
		c.Stall = max(c.Stall, time.Duration(n))
	default:
		c.Hear(m, word, n, rest)
	}
	if c.row >= silence && time.Since(c.right) > c.Silence {
		return fmt.Errorf("stopped: %d calls in a row failed", c.row)
	}
	return nil
}

// replace hires another worker for one that has ended.
func (c *Crew) replace(ctx context.Context, m *Member) error {
	c.bury(m)
	c.Deaths++
	fmt.Fprintf(c.Screen, "%s has ended\n", m.name)
	failed := !m.ready && m.reason() != "" // otherwise it was killed
	if !c.Fold(m) || failed || c.Deaths > c.Kill+mostDeaths {
		return m.ended()
	}
	return c.hire(ctx, m.Place, true)
}

func (c *Crew) ready(m *Member) {
	m.ready = true
	switch {
	case !c.Start.IsZero():
		c.Send(m, c.Feed(m))
	case !slices.ContainsFunc(c.members, func(m *Member) bool { return !m.ready }):
		c.Start = time.Now()
		c.Last, c.right = c.Start, c.Start
		for _, m := range c.members {
			c.Send(m, c.Feed(m))
		}
	}
}

// Send writes lines to a worker. They fit into a pipe, in case it does not read them.
func (c *Crew) Send(m *Member, lines string) {
	if lines != "" {
		_, _ = io.WriteString(m.in, lines) // the end of a worker is an event
	}
}

func (c *Crew) bury(m *Member) {
	_ = m.in.Close()
	c.members = slices.DeleteFunc(c.members, func(other *Member) bool { return other == m })
}

// strike kills a worker if it is time.
func (c *Crew) strike(done, total int) {
	if c.killed == c.Kill || done < total*(c.killed+1)/(c.Kill+1) {
		return
	}
	alive := slices.DeleteFunc(slices.Clone(c.members), func(m *Member) bool { return !m.ready || m.killed })
	if len(alive) == 0 {
		return // the next event
	}
	m := alive[rand.IntN(len(alive))] //nolint:gosec // no secret
	m.killed = true
	c.killed++
	m.kill()
}

// dismiss ends the workers, and waits until their calls that are sent are over.
func (c *Crew) dismiss() {
	for _, m := range c.members {
		go m.stop()
	}
	for len(c.members) > 0 {
		if e := <-c.events; e.ended {
			c.bury(e.from)
		} else {
			_ = c.hear(e.from, e.line) // the calls count
		}
	}
}

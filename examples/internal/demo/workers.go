package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Task is what the workers of a run do.
type Task interface {
	// Order returns what a worker is told at its start, as JSON.
	Order(p *Process) any
	// Input returns what a worker reads once all are ready, or when one that replaces another is.
	Input(p *Process) any
	// Line is a line of a worker: a word, a number, and more.
	Line(p *Process, word string, n int, rest string)
	// Ended is the end of a worker before that of the run. It reports whether another one can replace it.
	Ended(p *Process) bool
	// Progress returns how much is done, of how much, and what to show of it.
	Progress() (done, total int, text string)
}

// Workers are the processes of a run that make the calls. They belong to one goroutine.
type Workers struct {
	Task
	Name   string // of each, in messages
	Number int
	Kill   int // number of times that one is killed on the way
	Screen *Screen

	Start  time.Time // when all were ready
	Deaths int       // before the end of the run
	Error  string    // the first of a call

	last    time.Time // of the progress
	stall   time.Duration
	events  chan event
	all     []*Process // that have not ended
	started int
	killed  int
}

// An event is a line that a worker has written. If it is empty, the worker has ended.
type event struct {
	from *Process
	line string
}

// Note notes the error of a call.
func (w *Workers) Note(why string) { w.Error = cmp.Or(w.Error, why) }

// Work does the task, or what is done until the end of ctx. The workers end with it.
func (w *Workers) Work(ctx context.Context) error {
	w.events = make(chan event, 1024)
	ticker := time.NewTicker(showTime)
	defer ticker.Stop()
	defer w.stop(ctx)
	for place := range w.Number {
		if err := w.start(ctx, place); err != nil {
			return err
		}
	}
	for before := 0; ; {
		done, total, text := w.Progress()
		if done != before {
			before, w.last = done, time.Now()
		}
		if done >= total {
			return nil
		}
		w.strike(done, total)
		select {
		case e := <-w.events:
			if err := w.handle(ctx, e); err != nil {
				return err
			}
		case <-ticker.C:
			if !w.Start.IsZero() {
				w.Screen.show(time.Since(w.Start), float64(done)/float64(total), text)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *Workers) start(ctx context.Context, place int) error {
	w.started++
	p := &Process{Place: place, name: fmt.Sprintf("%s %d", w.Name, w.started)}
	order, err := json.Marshal(w.Order(p))
	if err == nil {
		line := func(line string) { w.events <- event{p, line} }
		err = p.start(ctx, line, func() { line("") }, "worker", string(order))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(w.Screen, "%s: pid %d\n", p.name, p.cmd.Process.Pid)
	w.all = append(w.all, p)
	return nil
}

func (w *Workers) handle(ctx context.Context, e event) error {
	p := e.from
	word, rest, _ := strings.Cut(e.line, " ")
	number, rest, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(number) // a worker writes one
	switch word {
	case "":
		return w.replace(ctx, p)
	case "ready":
		p.ready = true
		if !w.Start.IsZero() {
			w.feed(p)
		} else if !slices.ContainsFunc(w.all, func(p *Process) bool { return !p.ready }) {
			w.Start = time.Now()
			w.last = w.Start
			w.feed(w.all...)
		}
	case "stall":
		w.stall = max(w.stall, time.Duration(n))
	default:
		w.Line(p, word, n, rest)
	}
	return nil
}

// feed does not wait until the workers have read.
func (w *Workers) feed(all ...*Process) {
	for _, p := range all {
		input := w.Input(p)
		go func() { _ = json.NewEncoder(p.in).Encode(input) }() // the end of a worker is an event
	}
}

// replace starts another worker for one that was killed, by us or anybody.
func (w *Workers) replace(ctx context.Context, p *Process) error {
	w.bury(p)
	w.Deaths++
	fmt.Fprintf(w.Screen, "%s has ended\n", p.name)
	if killed := p.cmd.ProcessState.ExitCode() < 0; !w.Ended(p) || !killed {
		return p.failure()
	}
	return w.start(ctx, p.Place)
}

func (w *Workers) bury(p *Process) {
	_ = p.in.Close()
	w.all = slices.DeleteFunc(w.all, func(other *Process) bool { return other == p })
}

// strike kills a worker if it is time.
func (w *Workers) strike(done, total int) {
	if w.killed == w.Kill || done < total*(w.killed+1)/(w.Kill+1) {
		return
	}
	if i := slices.IndexFunc(w.all, func(p *Process) bool { return p.ready && !p.killed }); i >= 0 {
		w.killed++
		w.all[i].killed = true
		w.all[i].kill()
	}
}

// stop ends the workers, and waits until their calls that are sent are over. These count.
func (w *Workers) stop(ctx context.Context) {
	for _, p := range w.all {
		go p.stop()
	}
	for len(w.all) > 0 {
		if e := <-w.events; e.line == "" {
			w.bury(e.from)
		} else {
			_ = w.handle(ctx, e) // it is no end
		}
	}
}

// Report sets the figures of the workers, and reports whether a stall explains that a limit was broken: it was longer than is
// allowed for, and the run was not faster than the limit, but for one period.
func (w *Workers) Report(r *Report, ideal, period, allowed time.Duration) (excused bool) {
	elapsed := max(0, w.last.Sub(w.Start))
	stall := max(Milliseconds(w.stall), r.Figures.Num("stall_ms"))
	r.Set("void", &r.Void, "")
	r.Set("deaths", w.Deaths, "Processes that have ended on the way, and were replaced.")
	r.Set("elapsed_seconds", Round(elapsed.Seconds()),
		fmt.Sprintf("From the start to the last answer; at the limit, it takes %v.", Round(ideal.Seconds())))
	r.Set("stall_ms", stall, fmt.Sprintf("A process or a call was late by this much at most; %v are allowed for.", Milliseconds(allowed)))
	return stall > Milliseconds(allowed) && elapsed > ideal-period
}

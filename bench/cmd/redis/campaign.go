package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/bench"
)

// epoch is 2020, in µs of Unix.
const epoch = 1577836800_000_000

// An outcome is how a way did.
type outcome struct {
	Way     string  `json:"way"`
	Limit   string  `json:"limit"`
	Calls   int     `json:"calls"`
	Seconds float64 `json:"seconds"`
	Ideal   float64 `json:"ideal_seconds"` // calls / limit
	// Attempts are those of a call, until it was granted.
	Attempts   float64 `json:"attempts_per_call"`
	RedisMicro float64 `json:"redis_cpu_us_per_call"`
	RedisCPU   float64 `json:"redis_cpu_percent"` // of one processor
	CallersCPU float64 `json:"callers_cpu_us_per_call"`
	verdict
	Problems []string `json:"problems"`
}

// runCampaigns runs the ways that match, one after the other on an emptied server, and judges ours.
func runCampaigns(ctx context.Context, w io.Writer, servers *bench.Redis, calls int, match *regexp.Regexp, asJSON bool) error {
	addr, err := servers.Addr()
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	var outcomes []outcome
	var failed []error
	for _, way := range ways() {
		if !match.MatchString(way.name) {
			continue
		}
		if err := client.FlushAll(ctx).Err(); err != nil {
			return err
		}
		o, err := runWay(ctx, client, way, calls)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		if way.ours && len(o.Problems) > 0 {
			failed = append(failed, fmt.Errorf("%s: %s", way.name, strings.Join(o.Problems, "; ")))
		}
		if way.control && calls >= 10*campaignCount*limit && o.Arrived <= limit {
			failed = append(failed, fmt.Errorf("%s: it did not pass the limit, so the load is too weak to tell anything", way.name))
		}
		outcomes = append(outcomes, o)
	}
	switch {
	case outcomes == nil:
		return errNoMatch
	case asJSON:
		err = writeJSON(w, outcomes)
	default:
		writeOutcomes(w, outcomes)
	}
	return errors.Join(append(failed, err)...)
}

func runWay(ctx context.Context, client *redis.Client, way way, calls int) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	obs, err := listen(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = obs.Close() }()
	before, err := bench.RedisCPU(ctx, client)
	if err != nil {
		return outcome{}, err
	}
	begin := time.Now().Add(time.Second)
	var (
		all      sync.WaitGroup
		fails    [processes]error
		attempts [processes]int64
		cpu      [processes]time.Duration
	)
	for p := range processes {
		t := told{Way: way.name, Redis: client.Options().Addr, Observer: obs.Addr().String(), Process: p, Calls: calls / campaignCount / processes, Begin: begin}
		all.Go(func() {
			attempts[p], cpu[p], fails[p] = t.spawn(ctx)
			if fails[p] != nil {
				cancel() // the others end too
			}
		})
	}
	all.Wait()
	if err := errors.Join(fails[:]...); err != nil {
		return outcome{}, err
	}
	arrivals := obs.all()
	after, err := bench.RedisCPU(ctx, client)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{Way: way.name, Limit: way.limit, Calls: calls, Ideal: float64(calls) / campaignCount / limit}
	last, tries, used := int64(0), int64(0), time.Duration(0)
	for _, a := range arrivals {
		last = max(last, a.at)
	}
	for p := range processes {
		tries += attempts[p]
		used += cpu[p]
	}
	n := float64(calls)
	o.Seconds = float64(last-(begin.UnixMicro()-epoch)) / second
	o.Attempts = float64(tries) / n
	o.RedisMicro, o.CallersCPU = float64((after-before).Microseconds())/n, float64(used.Microseconds())/n
	o.RedisCPU = 100 * (after - before).Seconds() / o.Seconds
	o.verdict = judge(way, arrivals, calls/campaignCount)
	o.Problems = o.problems
	return o, nil
}

// spawn runs a caller as a process of its own.
func (t told) spawn(ctx context.Context) (attempts int64, cpu time.Duration, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return 0, 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), toldBy+"="+string(text))
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return 0, 0, fmt.Errorf("process %d: %w: %s", t.Process, err, errs.String())
	}
	var r report
	err = json.Unmarshal(out.Bytes(), &r)
	return r.Attempts, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// An observer is called: it stamps what arrives before it looks at it.
type observer struct {
	net.Listener
	accept, conns sync.WaitGroup
	mu            sync.Mutex
	arrivals      []arrival
}

func listen(ctx context.Context) (*observer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &observer{Listener: l}
	o.accept.Go(func() {
		for range processes * campaignCount {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			o.conns.Go(func() { o.read(conn) })
		}
	})
	return o, nil
}

// all is what has arrived, when the callers have hung up.
func (o *observer) all() []arrival {
	o.accept.Wait()
	o.conns.Wait()
	return o.arrivals
}

func (o *observer) read(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var own []arrival
	buf, have := make([]byte, 4096*callBytes), 0
	for {
		n, err := conn.Read(buf[have:])
		at := time.Now().UnixMicro() - epoch
		have += n
		rest := buf[:have]
		for ; len(rest) >= callBytes; rest = rest[callBytes:] {
			own = append(own, arrival{
				campaign: binary.BigEndian.Uint32(rest), call: binary.BigEndian.Uint32(rest[4:]),
				granted: int64(binary.BigEndian.Uint64(rest[8:])), at: at,
			})
		}
		have = copy(buf, rest)
		if err != nil {
			break
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.arrivals = append(o.arrivals, own...)
}

func writeOutcomes(w io.Writer, outcomes []outcome) {
	fmt.Fprintf(w, "%d campaigns from %d processes, all calls due at once, %d processors.\n\n", campaignCount, processes, runtime.GOMAXPROCS(0))
	rows := [][]string{{
		"way", "limit of a campaign", "calls", "s", "ideal s", "attempts/call", "µs Redis CPU/call", "Redis CPU", "µs callers' CPU/call",
		"worst second, server", "any, server", "worst second, observer", "any, observer", "in flight at a border", "judged",
	}}
	rows = append(rows, strings.Split("---,---"+strings.Repeat(",--:", 12)+",---", ","))
	for _, o := range outcomes {
		says := "kept"
		if len(o.Problems) > 0 {
			says = "BROKEN"
		} else if o.Granted == nil {
			says = "–"
		}
		f := func(v float64) string { return number(&v) }
		n := func(v *int) string {
			if v == nil {
				return "–"
			}
			return strconv.Itoa(*v)
		}
		rows = append(rows, []string{
			o.Way, o.Limit, strconv.Itoa(o.Calls), f(o.Seconds), f(o.Ideal), f(o.Attempts), f(o.RedisMicro), f(o.RedisCPU) + " %", f(o.CallersCPU),
			n(o.Granted), n(o.GrantedSliding), n(&o.Arrived), n(&o.ArrivedSliding), n(o.InFlight), says,
		})
	}
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
	for _, o := range outcomes {
		for _, p := range o.Problems {
			fmt.Fprintf(w, "* %s: %s\n", o.Way, p)
		}
	}
}

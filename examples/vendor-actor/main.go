// Command vendor-actor makes calls to a vendor that punishes haste, and prints how the vendor saw them. The vendor permits
// 100 calls a second. One more starts a pause of 15 seconds, and each call during the pause doubles it, up to 15 minutes; calls
// within a second of the first one are pardoned, as they can have been on their way.
//
//	vendor-actor [-calls N] [-rate R] [-capacity C] [-limit R] [-scale S] [-vendor URL] [-algorithm A] [-json]
//
// The load is open: call i is offered at its own time, whatever happens to earlier calls. With the algorithm gresil, the calls
// pass a gate of outbound/gate, with a connection for each account. In the control, naive, each call repeats itself after its
// own wait. Without -algorithm, -vendor and -json, the control makes the same calls afterwards. It could go on for hours: it
// gives up a call that is told to wait for more than a minute of the vendor.
//
// The vendor is a process that the program starts, or the one at the URL. It must answer
//
//	GET URL/report?account=A&n=N    200, or 429 with Retry-After or X-Retry-After-Ms, in real time
//	GET URL/judge                   its figures as JSON, or 404
//
// where each call has an n of its own and keeps it when it is repeated. The figures, which are asked for before the first call too, are
// arrivals, unique (different n), duplicates, most_sliding (in any second), most_fixed (in a second of the clock), seconds (from the first
// arrival to the last), trips, escalations, and worst_penalty_s. With -scale S, a second of the vendor is 1/S of a real one: its pauses and
// latency are as short, and -rate and -limit are as high. Times in the figures are real ones.
//
// The exit code is 0 if all calls were served and the vendor saw no trip and no escalation, otherwise 1, and 2 for a wrong
// command line. A control that has run exits with 0 in any case.
//
// "vendor-actor vendor -grace 0s" is the vendor alone, here one that pardons nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/internal/escalating"
)

func main() { command().Main() }

func command() demo.Command {
	return demo.Command{Whole: run, Parts: map[string]demo.Part{"vendor": demo.Vendor("vendor-actor vendor", vendor)}}
}

func vendor(flags *flag.FlagSet) func(context.Context) http.Handler {
	grace := flags.Duration("grace", time.Second, "time after a trip in which calls are pardoned, before it is divided by the scale")
	scale := 1.0
	demo.Number(flags, &scale, "scale", 0.1, 1000, "`factor` by which all times are shorter")
	return func(context.Context) http.Handler { return newVendor(escalating.New(*grace, scale)) }
}

func newVendor(v *escalating.Vendor) http.Handler {
	return demo.NewVendor("GET /report", func(w http.ResponseWriter, r *http.Request) {
		account, n := r.FormValue("account"), r.FormValue("n")
		if account == "" || n == "" {
			http.Error(w, "account and n must be given", http.StatusBadRequest)
			return
		}
		wait, err := v.Call(r.Context(), n)
		switch {
		case err != nil: // the client has left
		case wait > 0:
			w.Header().Set("Retry-After", ceil(wait, time.Second))
			w.Header().Set("X-Retry-After-Ms", ceil(wait, time.Millisecond))
			http.Error(w, "slow down", http.StatusTooManyRequests)
		default:
			demo.WriteJSON(w, map[string]string{"account": account, "n": n})
		}
	}, func() any { return v.Verdict() })
}

func ceil(d, unit time.Duration) string { return strconv.FormatInt(int64((d+unit-1)/unit), 10) }

// config has the values of the flags.
type config struct {
	demo.Flags

	calls    int
	rate     float64 // a second of the vendor
	capacity int
	limit    float64 // a second of the vendor; 0 is none
	scale    float64
}

// run returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := config{calls: 6000, rate: 120, capacity: 8, scale: 1}
	flags := flag.NewFlagSet("vendor-actor", flag.ContinueOnError)
	demo.Number(flags, &c.calls, "calls", 1, 1_000_000, "`number` of calls that are offered")
	demo.Number(flags, &c.rate, "rate", 0.01, 100_000, "`calls` offered in a second of the vendor")
	demo.Number(flags, &c.capacity, "capacity", 1, 10_000, "`number` of calls in flight at most, of gresil")
	demo.Number(flags, &c.limit, "limit", 0, 100_000, "`calls` that gresil sends in a second of the vendor at most; 0 is no limit")
	demo.Number(flags, &c.scale, "scale", 0.1, 1000, "`factor` by which the vendor is faster, and the load higher")
	c.Define(flags, false)
	if code, ok := demo.Parse(flags, args, stderr, nil); !ok {
		return code
	}
	demand := fmt.Sprintf("The vendor permits 100 calls in any second, one more starts a pause, and a call in the pause doubles it. "+
		"%d calls come, %v a second; a second is 1/%v of a real one.", c.calls, c.rate, c.scale)
	return c.Show(ctx, stdout, stderr, demand, "ok: all calls were served, and no limit was broken", c.report)
}

// report makes all calls, and returns the vendor's view of them.
func (c config) report(ctx context.Context, f demo.Flags, screen *demo.Screen) *demo.Report {
	a := &actor{config: c, screen: screen}
	a.Flags = f
	r := &demo.Report{Algorithm: f.Algorithm}
	r.Flags("calls", c.calls, "rate", c.rate, "capacity", c.capacity, "limit", c.limit, "scale", c.scale)
	r.Load(ctx, &a.Flags, screen, false, a.run, "-scale", fmt.Sprint(c.scale))
	r.Set("served", a.served, "Calls that the vendor has answered with 200.")
	r.Set("failed", a.failed, "Calls that were given up.")
	r.Arrivals("second", 100)
	r.Take("trips", "trips", "So many times a call was over the limit, and started a pause.")
	r.Take("escalations", "escalations", "So many calls were made in a pause, and doubled it.")
	r.Take("worst_penalty_s", "worst_penalty_s", "The longest pause, in seconds.")
	r.Problem(a.served < c.calls, "%d of %d calls were not served", c.calls-a.served, c.calls)
	r.Problem(a.first != nil, "%d failed, the first: %v", a.failed, a.first)
	trips, escalations := r.Figures.Num("trips"), r.Figures.Num("escalations")
	r.Broken(trips > 0, false, "trips: %v", trips)
	r.Broken(escalations > 0, false, "escalations: %v", escalations)
	return r
}

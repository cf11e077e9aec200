// Command vendor-actor makes calls to a vendor that punishes haste, and prints how the vendor saw them. The vendor permits
// 100 calls a second. One more starts a pause of 15 seconds, and each call during the pause doubles it, up to 15 minutes; calls
// within a second of the first one are pardoned, as they can have been on their way.
//
//	vendor-actor [-calls N] [-rate R] [-capacity C] [-limit R] [-scale S] [-vendor URL] [-algorithm A] [-json]
//
// The load is open: call i is offered at its own time, whatever happens to earlier calls. With the algorithm gresil, the calls
// pass a gate of outbound/gate, with a connection for each account. In the control, naive, each call repeats itself after its
// own wait. Without -algorithm, -vendor and -json, the control makes the same calls afterwards. It could go on for hours: it is
// stopped when no call was served for a minute of the vendor.
//
// The vendor is a process that the program starts, or the one at the URL. It must answer
//
//	GET URL/report?account=A&n=N    200, or 429 with Retry-After or X-Retry-After-Ms, in real time
//	GET URL/judge                   its figures as JSON, or 404
//
// where each call has an n of its own and keeps it when it is repeated. The figures are arrivals, unique (different n),
// duplicates, most_sliding (in any second), most_fixed (in a second of the clock), seconds (from the first arrival to the last),
// trips, escalations, and worst_penalty_s. With -scale S, a second of the vendor is 1/S of a real one: its pauses and latency
// are as short, and -rate and -limit are as high. Times in the figures are real ones.
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

func vendor(flags *flag.FlagSet) func(*demo.Stall) http.Handler {
	grace := flags.Duration("grace", time.Second, "time after a trip in which calls are pardoned, before it is divided by the scale")
	scale := 1.0
	flags.Func("scale", "`factor` by which all times are shorter (default 1)", demo.Number(&scale, 0.1, 1000))
	return func(*demo.Stall) http.Handler { return newVendor(escalating.New(*grace, scale)) }
}

func newVendor(v *escalating.Vendor) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
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
	})
	mux.HandleFunc("GET /judge", func(w http.ResponseWriter, _ *http.Request) { demo.WriteJSON(w, v.Verdict()) })
	return mux
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

// at returns when call i is offered, after the start.
func (c config) at(i int) time.Duration {
	return time.Duration(float64(i) / (c.rate * c.scale) * float64(time.Second))
}

// parse reads the command line, and reports its mistakes itself.
func parse(args []string, stderr io.Writer) (config, error) {
	c := config{calls: 6000, rate: 120, capacity: 8, scale: 1}
	flags := flag.NewFlagSet("vendor-actor", flag.ContinueOnError)
	flags.Func("calls", "`number` of calls that are offered (default 6000)", demo.Whole(&c.calls, 1, 1_000_000))
	flags.Func("rate", "`calls` offered in a second of the vendor (default 120)", demo.Number(&c.rate, 0.01, 100_000))
	flags.Func("capacity", "`number` of calls in flight at most, of gresil (default 8)", demo.Whole(&c.capacity, 1, 10_000))
	flags.Func("limit", "`calls` that gresil sends in a second of the vendor at most; 0 is no limit (default 0)",
		demo.Number(&c.limit, 0, 100_000))
	flags.Func("scale", "`factor` by which the vendor is faster, and the load higher (default 1)", demo.Number(&c.scale, 0.1, 1000))
	c.Define(flags, "")
	return c, demo.Parse(flags, args, stderr, "-scale 10", nil)
}

// run returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if err != nil {
		return demo.ExitCode(err)
	}
	demand := fmt.Sprintf("The vendor permits 100 calls in any second, one more starts a pause, and a call in the pause doubles it. "+
		"%d calls come, %v a second; a second is 1/%v of a real one.", c.calls, c.rate, c.scale)
	return c.Show(ctx, stdout, stderr, demand, "ok: all calls were served, and no limit was broken", c.report)
}

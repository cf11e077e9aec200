// Command vendor-actor makes calls to a vendor that punishes haste, and prints how the vendor saw
// them. The vendor permits 100 calls a second. One more starts a pause of 15 seconds, and each call
// during the pause doubles it, up to 15 minutes; calls within a second of the first one are
// pardoned, as they can have been on their way.
//
//	vendor-actor [-calls N] [-rate R] [-capacity C] [-limit R] [-scale S] [-vendor URL] [-algorithm A] [-json]
//
// The load is open: call i is offered at its own time, whatever happens to earlier calls. With the
// algorithm gresil, the calls pass a gate of outbound/gate. The controls are naive, where
// each call repeats itself after its own wait, and article, an actor that shares one delay. A
// control can go on for hours. It is stopped when no call was served for a minute of the vendor.
//
// The vendor is a process that the program starts, or the one at the URL. It must answer
//
//	GET URL/report?account=A&n=N    200, or 429 with Retry-After or X-Retry-After-Ms, in real time
//	GET URL/judge                   its figures as JSON, or 404
//
// where each call has an n of its own and keeps it when it is repeated. The figures are arrivals,
// unique (different n), duplicates, most_sliding (in any second), most_fixed (in a second of the
// clock), seconds (from the first arrival to the last), trips, escalations, and worst_penalty_s.
// With -scale S, a second of the vendor is 1/S of a real one: its pauses and latency are as short,
// and -rate and -limit are as high. Times in the figures are real ones.
//
// The exit code is 0 if all calls were served and the vendor saw no trip and no escalation,
// otherwise 1, and 2 for a wrong command line. A control that has run exits with 0 in any case.
//
// "vendor-actor vendor -grace 0s" is the vendor alone, here one that pardons nothing.
package main

import (
	"context"
	"io"

	"github.com/gresil/gresil/examples/internal/program"
)

func main() { command().Main() }

func command() program.Command { return program.Command{Whole: run, Vendor: runVendor} }

// run returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parse(args, stderr)
	if err != nil {
		return program.ExitCode(err)
	}
	s := show(ctx, cfg, program.NewScreen(stderr))
	program.Print(stdout, s, cfg.json)
	return program.RunCode(s.Algorithm, s.OK, false, s.err)
}

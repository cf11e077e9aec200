// Package demo is what the example programs share: their command lines and processes, the workers that make calls, the
// judgement of a vendor by its own clock, progress, and the report at the end of a run.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// A Part is a program, or a part of one, with its arguments. It ends with ctx, and returns the exit code.
type Part func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// A Command is a program. Its first argument is the name of a part, or a flag.
type Command struct {
	Whole  Part
	Parts  map[string]Part                            // that can also be processes of [Servers]
	Worker func(ctx context.Context, w *Worker) error // a process of [Workers]; nil if there are none
}

// Main runs the command until it ends, or a signal ends its context; a second one ends it at once. As a process that the
// command has started, it is one of its parts, a worker, or a Redis, and ends with its standard input.
func (c Command) Main() {
	args := os.Args[1:]
	if len(args) > 1 && args[0] == "child" {
		signal.Ignore(os.Interrupt, syscall.SIGHUP) // they are for the parent, which closes the input
		os.Exit(c.child(args[1], args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(c.Run(ctx, args, os.Stdout, os.Stderr))
}

func (c Command) child(part string, args []string) int {
	if part == "worker" {
		return c.RunWorker(args[0], os.Stdin, os.Stdout, os.Stderr)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go endWith(os.Stdin, cancel)
	if part == "redis" {
		return keepRedis(ctx, os.Stdout, os.Stderr)
	}
	return c.Parts[part](ctx, args, os.Stdout, os.Stderr)
}

// endWith calls end at the end of the input: the parent of this process has closed it, or has ended.
func endWith(input io.Reader, end context.CancelFunc) {
	_, _ = io.Copy(io.Discard, input)
	end()
}

// Run returns the exit code of the part that the first argument names, or of the whole.
func (c Command) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && c.Parts[args[0]] != nil {
		return c.Parts[args[0]](ctx, args[1:], stdout, stderr)
	}
	return c.Whole(ctx, args, stdout, stderr)
}

// Parse reads a command line of flags alone, and prints its mistakes, those that check finds too. If it is not ok, the program
// ends with the code.
func Parse(flags *flag.FlagSet, args []string, stderr io.Writer, check func() error) (code int, ok bool) {
	flags.SetOutput(stderr)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0, false
	case err != nil: // which is printed
		return 2, false
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	case check != nil:
		err = check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", flags.Name(), err)
	}
	return 2, err == nil
}

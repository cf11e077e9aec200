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
	Worker func(ctx context.Context, w *Worker) error // a process of a [Crew]; nil if there are none
}

// Main runs the command until it ends, or a signal ends its context; a second one ends it at once. As a process that the
// command has started, it is one of its parts, its Redis, or a worker, and ends with its standard input.
func (c Command) Main() {
	args := os.Args[1:]
	switch {
	case len(args) > 1 && args[0] == "worker" && c.Worker != nil:
		signal.Ignore(os.Interrupt, syscall.SIGHUP) // they are for the parent, which closes the input
		os.Exit(c.RunWorker(args[1], os.Stdin, os.Stdout, os.Stderr))
	case len(args) > 1 && args[0] == "child":
		os.Exit(runChild(func(ctx context.Context) int {
			if args[1] == "redis" {
				return keepRedis(ctx, os.Stdout, os.Stderr)
			}
			return c.Parts[args[1]](ctx, args[2:], os.Stdout, os.Stderr)
		}))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(c.Run(ctx, args, os.Stdout, os.Stderr))
}

// runChild runs until the standard input ends. What ctrl-C or the end of a terminal mean is left to the parent.
func runChild(run func(ctx context.Context) int) int {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return run(ctx)
}

// Run returns the exit code of the part that the first argument names, or of the whole.
func (c Command) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && c.Parts[args[0]] != nil {
		return c.Parts[args[0]](ctx, args[1:], stdout, stderr)
	}
	return c.Whole(ctx, args, stdout, stderr)
}

// Parse reads a command line of flags alone, such as the example, and prints its mistakes, those that check finds too.
func Parse(flags *flag.FlagSet, args []string, stderr io.Writer, example string, check func() error) error {
	flags.SetOutput(stderr)
	err := flags.Parse(args)
	if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: there are only flags, such as %s", flags.Arg(0), example)
	} else if check != nil {
		err = check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", flags.Name(), err)
	}
	return err
}

// ExitCode returns the exit code for an error of Parse.
func ExitCode(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	return 2
}

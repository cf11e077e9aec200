package program

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

// A Command is a program with a vendor of its own. Its first argument is the name of a part, or a flag.
type Command struct {
	Whole  func(ctx context.Context, args []string, stdout, stderr io.Writer) int // has flags alone
	Vendor func(ctx context.Context, args []string, stdout, stderr io.Writer) int // "vendor", the vendor alone
	Worker func(told string, in io.Reader, stdout, stderr io.Writer) int          // nil if it has none
}

// Main runs the command until it ends, or a signal ends its context; a second one ends it at once. As a
// process that the command has started, it is its vendor, its Redis, or a worker.
func (c Command) Main() {
	args := os.Args[1:]
	switch {
	case len(args) > 1 && args[0] == "worker" && c.Worker != nil:
		signal.Ignore(os.Interrupt, syscall.SIGHUP) // they are for the parent, which closes the input
		os.Exit(c.Worker(args[1], os.Stdin, os.Stdout, os.Stderr))
	case len(args) > 0 && args[0] == "child":
		os.Exit(RunChild(func(ctx context.Context) int { return c.Vendor(ctx, args[1:], os.Stdout, os.Stderr) }))
	case len(args) > 0 && args[0] == "redis" && c.Worker != nil:
		os.Exit(RunChild(func(ctx context.Context) int { return KeepRedis(ctx, os.Stdout, os.Stderr) }))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(c.Run(ctx, args, os.Stdout, os.Stderr))
}

// Run returns the exit code of the whole, or of the vendor alone.
func (c Command) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "vendor" {
		return c.Vendor(ctx, args[1:], stdout, stderr)
	}
	return c.Whole(ctx, args, stdout, stderr)
}

// Parse reads a command line of flags alone, such as the example, and prints its mistakes, those
// that check finds too.
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

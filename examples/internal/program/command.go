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

// Main runs a program until it ends, or a signal ends its context; a second one ends it at once.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
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

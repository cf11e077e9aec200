// Package entered counts the functions that one request passes, which is what somebody reads to understand it.
package entered

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/coverage"
	"slices"
	"strings"
)

const (
	module = "github.com/gresil/gresil/"
	dirEnv = "ENTERED_DIR"
)

// Once calls f in a program that [By] runs: a hundred times to make what is made once, and then once to be counted.
func Once(f func()) {
	for range 100 {
		f()
	}
	err := coverage.ClearCounters()
	f()
	if err = errors.Join(err, coverage.WriteMetaDir(os.Getenv(dirEnv)), coverage.WriteCountersDir(os.Getenv(dirEnv))); err != nil {
		panic(err)
	}
}

// line is one of go tool covdata func: a file and a line, a function, and how much of it was entered.
var line = regexp.MustCompile(`(?m)^` + module + `(\S+\.go):\d+:\s+(\S+)\s+([\d.]+)%$`)

// By builds a program, which is a directory below testdata of this package, with counters in all packages of this module, and runs
// it; dir is for its files. It returns the functions of the module that the last call of its function has entered, as
// "client/host.go Host", and their files.
func By(ctx context.Context, dir, program string) (functions, files []string, err error) {
	binary := filepath.Join(dir, "program")
	build := []string{"build", "-cover", "-covermode=atomic", "-coverpkg=" + module + "...", "-o", binary, module + "internal/entered/testdata/" + program}
	_, err = run(ctx, dir, "go", build...)
	if err == nil {
		_, err = run(ctx, dir, binary)
	}
	var out string
	if err == nil {
		out, err = run(ctx, dir, "go", "tool", "covdata", "func", "-i="+dir)
	}
	for _, m := range line.FindAllStringSubmatch(out, -1) {
		if m[3] == "0.0" || strings.HasPrefix(m[1], "internal/entered/") {
			continue
		}
		functions = append(functions, m[1]+" "+m[2])
		if !slices.Contains(files, m[1]) {
			files = append(files, m[1])
		}
	}
	return functions, files, err
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), dirEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", cmd, err, string(out))
	}
	return string(out), err
}

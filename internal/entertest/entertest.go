// Package entertest counts the functions that one request passes, which is what somebody reads to understand it.
package entertest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/coverage"
	"slices"
	"strings"
	"testing"
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
// it. It returns the functions of the module that the last call of its function has entered, as "client/host.go Host", and their
// files.
func By(tb testing.TB, program string) (functions, files []string) {
	tb.Helper()
	dir := tb.TempDir()
	binary := filepath.Join(dir, "program")
	run(tb, nil, "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", "-o", binary, module+"internal/entertest/testdata/"+program)
	run(tb, []string{dirEnv + "=" + dir}, binary)
	for _, m := range line.FindAllStringSubmatch(run(tb, nil, "go", "tool", "covdata", "func", "-i="+dir), -1) {
		if m[3] == "0.0" || strings.HasPrefix(m[1], "internal/entertest/") {
			continue
		}
		functions = append(functions, m[1]+" "+m[2])
		if !slices.Contains(files, m[1]) {
			files = append(files, m[1])
		}
	}
	if len(functions) == 0 {
		tb.Fatal("nothing was entered: are there counters?")
	}
	return functions, files
}

func run(tb testing.TB, env []string, name string, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

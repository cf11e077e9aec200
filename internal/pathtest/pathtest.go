// Package pathtest measures the path of one operation through the code of this module: the functions that it enters.
package pathtest

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A Path is what one operation enters.
type Path struct {
	Functions []string // as "plugins/ratelimit/charge.go:42"
	Files     []string
	Longest   string // function
	Lines     int    // of that one
}

const module = "github.com/gresil/gresil/"

const program = `package main

import (
	"runtime/coverage"
%s)

func main() {
	%s
	for range 100 {
		operation() // makes what is made once
	}
	check(coverage.ClearCounters())
	operation()
	check(coverage.WriteMetaDir(%[3]q))
	check(coverage.WriteCountersDir(%[3]q))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
`

// Of builds a program that calls operation, a func(), a hundred times and then once more, and returns the path of the last call. Setup is statements that define
// it; imports are paths.
func Of(tb testing.TB, setup string, imports ...string) Path {
	tb.Helper()
	dir := tb.TempDir()
	var list strings.Builder
	for _, path := range imports {
		fmt.Fprintf(&list, "\t%q\n", path)
	}
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, fmt.Appendf(nil, program, list.String(), setup, dir), 0o600); err != nil {
		tb.Fatal(err)
	}
	root := strings.TrimSpace(run(tb, "", "go", "list", "-m", "-f", "{{.Dir}}"))
	binary, profile := filepath.Join(dir, "program"), filepath.Join(dir, "profile")
	run(tb, root, "go", "build", "-o", binary, "-cover", "-covermode=atomic", "-coverpkg=command-line-arguments,"+module+"...", source)
	run(tb, root, binary)
	run(tb, root, "go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile)
	return read(tb, root, profile)
}

func run(tb testing.TB, dir, name string, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// read reads a profile: lines such as "github.com/gresil/gresil/server/key.go:17.2,19.3 2 1".
func read(tb testing.TB, root, profile string) (p Path) {
	tb.Helper()
	file, err := os.Open(profile)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	entered := map[string]map[int]bool{} // the lines where blocks begin, by file
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, rest, ok := strings.Cut(strings.TrimPrefix(lines.Text(), module), ":")
		var line, column, endLine, endColumn, statements, count int
		_, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &line, &column, &endLine, &endColumn, &statements, &count)
		if !ok || err != nil || count == 0 || !strings.HasPrefix(lines.Text(), module) {
			continue
		}
		if entered[name] == nil {
			entered[name] = map[int]bool{}
		}
		entered[name][line] = true
	}
	for _, name := range slices.Sorted(maps.Keys(entered)) {
		functions := p.functions(tb, filepath.Join(root, name), name, entered[name])
		if len(functions) > 0 {
			p.Files, p.Functions = append(p.Files, name), append(p.Functions, functions...)
		}
	}
	return p
}

// functions returns the functions of a file in which blocks begin, also literals: a block belongs to the innermost.
func (p *Path) functions(tb testing.TB, path, name string, blocks map[int]bool) (found []string) {
	tb.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		tb.Fatal(err)
	}
	innermost := map[int]ast.Node{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			for line := range blocks {
				if set.Position(n.Pos()).Line <= line && line <= set.Position(n.End()).Line {
					innermost[line] = n // an inner one is visited later
				}
			}
		}
		return true
	})
	seen := map[int]bool{}
	for _, n := range innermost {
		first, last := set.Position(n.Pos()).Line, set.Position(n.End()).Line
		if seen[first] {
			continue
		}
		seen[first] = true
		function := fmt.Sprintf("%s:%d", name, first)
		found = append(found, function)
		if lines := last - first + 1; lines > p.Lines {
			p.Longest, p.Lines = function, lines
		}
	}
	slices.Sort(found)
	return found
}

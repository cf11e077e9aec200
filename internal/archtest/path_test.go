package archtest

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

	"github.com/stretchr/testify/require"
)

// What a newcomer reads to follow one request through the code of this module.
func TestPathOfRequest(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		setup                   string // defines operation
		imports                 []string
		functions, files, lines int
	}{
		"allowed by a limiter": {
			`limits, err := ratelimit.New(ratelimit.Config{Limit: ratelimit.PerHour(1000)})
			check(err)
			s, err := ratelimit.NewServer(limits, ratelimit.ServerOptions{XRateLimit: true})
			check(err)
			h := s.Handler(http.NotFoundHandler())
			operation := func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) }`,
			[]string{"net/http", "net/http/httptest", mod + "/plugins/ratelimit"},
			30, 10, 60,
		},
		"through a retry and a breaker": {
			`rt := client.New(http.NewFileTransport(http.Dir(".")), breaker.NewClient(nil, breaker.ClientOptions{}), retry.NewClient(nil, retry.ClientOptions{}))
			req, err := http.NewRequest(http.MethodGet, "https://api.example.com/", nil)
			check(err)
			operation := func() {
				resp, err := rt.RoundTrip(req)
				check(err)
				check(resp.Body.Close())
			}`,
			[]string{"net/http", mod + "/client", mod + "/plugins/breaker", mod + "/plugins/retry"},
			40, 20, 60,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			functions, files := pathOf(t, row.setup, row.imports)
			require.NotEmpty(t, functions)
			require.LessOrEqual(t, len(functions), row.functions, functions)
			require.LessOrEqual(t, len(files), row.files, files)
			for function, lines := range functions {
				require.LessOrEqual(t, lines, row.lines, function)
			}
		})
	}
}

const operation = `package main

import (
	"runtime/coverage"
	%s
)

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

// pathOf builds a program that calls operation a hundred times and then once more, and returns the functions that the last call
// enters, as "plugins/ratelimit/request.go:42", with their lengths, and their files.
func pathOf(t *testing.T, setup string, imports []string) (functions map[string]int, files []string) {
	t.Helper()
	const root = "../.."
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	program := fmt.Appendf(nil, operation, `"`+strings.Join(imports, "\"\n\t\"")+`"`, setup, dir)
	require.NoError(t, os.WriteFile(source, program, 0o600))
	binary, profile := filepath.Join(dir, "program"), filepath.Join(dir, "profile")
	for _, args := range [][]string{
		{"go", "build", "-o", binary, "-cover", "-covermode=atomic", "-coverpkg=command-line-arguments," + mod + "/...", source},
		{binary},
		{"go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	file, err := os.Open(profile)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	entered := map[string][]int{}                        // the lines where blocks begin, by file
	for lines := bufio.NewScanner(file); lines.Scan(); { // as "github.com/gresil/gresil/server/key.go:17.2,19.3 2 1"
		path, block, ours := strings.Cut(strings.TrimPrefix(lines.Text(), mod+"/"), ":")
		var line, column, endLine, endColumn, statements, count int
		_, err := fmt.Sscanf(block, "%d.%d,%d.%d %d %d", &line, &column, &endLine, &endColumn, &statements, &count)
		if ours && err == nil && count > 0 && strings.HasPrefix(lines.Text(), mod+"/") {
			entered[path] = append(entered[path], line)
		}
	}
	functions = map[string]int{}
	for path, lines := range entered {
		addFunctions(t, functions, root, path, lines)
	}
	return functions, slices.Sorted(maps.Keys(entered))
}

// addFunctions adds the functions of a file in which blocks begin, also literals: a block belongs to the innermost.
func addFunctions(t *testing.T, functions map[string]int, root, path string, blocks []int) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	innermost := map[int][2]int{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			first, last := set.Position(n.Pos()).Line, set.Position(n.End()).Line
			for _, line := range blocks {
				if first <= line && line <= last {
					innermost[line] = [2]int{first, last} // an inner one is visited later
				}
			}
		}
		return true
	})
	for _, of := range innermost {
		functions[fmt.Sprintf("%s:%d", path, of[0])] = of[1] - of[0] + 1
	}
}

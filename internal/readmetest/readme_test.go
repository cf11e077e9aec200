//go:build !race

package readmetest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	clause  = regexp.MustCompile(`(?m)^package \w+$`)
	link    = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
)

// Each Go block is a whole file, so that a reader can paste and run it.
func TestGoBlocksCompile(t *testing.T) {
	t.Parallel()
	elsewhere := map[string]bool{} // files in modules of their own, whose tests compile them
	for _, dir := range []string{"docs/guide/sqlstore", "examples/sdk"} {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			elsewhere[string(text)] = true
		}
	}
	blocks := map[string]string{}
	for path, text := range documents(t) {
		for i, block := range goBlock.FindAllStringSubmatch(text, -1) {
			if elsewhere[block[1]] {
				continue
			}
			name := fmt.Sprintf("%s_%d", strings.TrimSuffix(filepath.Base(path), ".md"), i+1)
			require.Regexp(t, clause, block[1], "Go block %d of %s is not a whole file", i+1, path)
			require.NotContains(t, blocks, name, "two documents have this name")
			blocks[name] = block[1]
		}
	}
	require.Greater(t, len(blocks), 20, "nothing was read")
	out, err := build(t, blocks)
	require.NoError(t, err, "%s", out)
}

func TestBrokenBlock(t *testing.T) {
	t.Parallel()
	out, err := build(t, map[string]string{
		"broken": "package main\n\nimport \"github.com/gresil/gresil/core\"\n\nfunc main() { core.NoSuchThing() }\n",
	})
	require.Error(t, err)
	require.Contains(t, out, "NoSuchThing")
}

func TestLinksLeadToFiles(t *testing.T) {
	t.Parallel()
	links := 0
	for path, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(goBlock.ReplaceAllString(text, ""), -1) {
			if links++; !strings.Contains(m[1], "://") {
				_, err := os.Stat(filepath.Join(filepath.Dir(path), m[1]))
				require.NoError(t, err, "a link in %s", path)
			}
		}
	}
	require.Greater(t, links, 50, "nothing was read")
}

func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, strings.Count(documents(t)[filepath.Join(root, "README.md")], "\n"), 200)
}

// documents returns the texts of all documents, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	}))
	return texts
}

// build compiles files, each as a package of its own that only go believes to be in bench. None is package main, so nothing is linked.
func build(t *testing.T, files map[string]string) (out string, err error) {
	t.Helper()
	bench, err := filepath.Abs(filepath.Join(root, "bench"))
	require.NoError(t, err)
	dir, replace := t.TempDir(), map[string]string{}
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay.json")}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := filepath.Join(dir, name+".go")
		require.NoError(t, os.WriteFile(content, []byte(clause.ReplaceAllString(files[name], "package block")), 0o600))
		replace[filepath.Join(bench, "internal", "readmetest", name, "main.go")] = content
		args = append(args, "./internal/readmetest/"+name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(args[2], overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = bench
	text, err := cmd.CombinedOutput()
	return string(text), err
}

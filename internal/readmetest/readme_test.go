//go:build !race

package readmetest

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root = "../.."
	// The modules, by where they are from there.
	product  = "."
	bench    = "bench"
	sqlstore = "docs/guide/sqlstore"
)

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	snippet = regexp.MustCompile(`(?m)^package `)
)

// TestGoBlocksCompile builds every Go block of the documents. Each is a whole file:
// it starts with a package clause, so that a reader can paste and run it. One that
// imports what only the module of bench requires is built there.
func TestGoBlocksCompile(t *testing.T) {
	t.Parallel()
	ours := append(requires(t, product), "github.com/gresil/gresil")
	others := map[string][]string{} // what only they require
	for _, module := range []string{bench, sqlstore} {
		others[module] = slices.DeleteFunc(requires(t, module), func(path string) bool { return slices.Contains(ours, path) })
	}
	blocks := map[string]map[string]string{product: {}, bench: {}, sqlstore: {}} // by module and name
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for i, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
			name := fmt.Sprintf("%s_%d", strings.TrimSuffix(filepath.Base(doc), ".md"), i+1)
			require.Regexp(t, snippet, block[1], "%s: Go block %d is not a whole file", doc, i+1)
			module := product
			for other, modules := range others {
				if slices.ContainsFunc(imports(t, name, block[1]), func(path string) bool { return within(path, modules) }) {
					module = other
				}
			}
			require.NotContains(t, blocks[module], name, "two documents have this name")
			blocks[module][name] = block[1]
		}
	}
	require.GreaterOrEqual(t, len(blocks[product]), 2, "the README shows a server and a client")
	require.GreaterOrEqual(t, len(blocks[bench]), 4, "the migration guides begin with other libraries")
	require.Len(t, blocks[sqlstore], 1)
	for module, files := range blocks {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			out, err := build(t, module, files)
			require.NoError(t, err, "%s", out)
		})
	}
}

// A block that does not compile is seen, in both modules.
func TestBlocksThatDoNotCompileAreSeen(t *testing.T) {
	t.Parallel()
	for module, block := range map[string]string{
		product: "package main\n\nimport \"github.com/gresil/gresil/core\"\n\nfunc main() { core.NoSuchThing() }\n",
		bench:   "package main\n\nimport \"github.com/sony/gobreaker/v2\"\n\nfunc main() { gobreaker.NoSuchThing() }\n",
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			out, err := build(t, module, map[string]string{"broken": block})
			require.Error(t, err)
			require.Contains(t, out, "NoSuchThing")
		})
	}
}

// documents are the paths of all documents.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

// requires returns what the go.mod of a module requires by itself.
func requires(t *testing.T, module string) (paths []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(root, module)
	out, err := cmd.Output()
	require.NoError(t, err)
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	require.NoError(t, json.Unmarshal(out, &mod))
	for _, r := range mod.Require {
		if !r.Indirect {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

func imports(t *testing.T, name, block string) (paths []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, block, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		paths = append(paths, path)
	}
	return paths
}

// within tells whether a package is one of some modules.
func within(path string, modules []string) bool {
	return slices.ContainsFunc(modules, func(module string) bool {
		return path == module || strings.HasPrefix(path, module+"/")
	})
}

// build builds files, each as a package of its own of a module. They are in no
// directory of it, but go is told that they were.
func build(t *testing.T, module string, files map[string]string) (out string, err error) {
	t.Helper()
	home, err := filepath.Abs(filepath.Join(root, module))
	require.NoError(t, err)
	dir, replace := t.TempDir(), map[string]string{} // where the content is, by the file that go is to see
	args := []string{"build", "-o", os.DevNull, "-overlay", filepath.Join(dir, "overlay.json")}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := filepath.Join(dir, name+".go")
		require.NoError(t, os.WriteFile(content, []byte(files[name]), 0o600))
		replace[filepath.Join(home, "internal", "readmetest", name, "main.go")] = content
		args = append(args, "./internal/readmetest/"+name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(args[4], overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = home
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 200)
}

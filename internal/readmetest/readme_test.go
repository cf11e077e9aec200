package readmetest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	snippet = regexp.MustCompile(`(?m)^package `)
)

// TestGoBlocksCompile builds every Go block of the documents. Each is a whole file:
// it starts with a package clause, so that a reader can paste and run it.
func TestGoBlocksCompile(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	var documents []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
			documents = append(documents, path)
		}
		return err
	}))
	replace := map[string]string{} // files that go is to see, by where their content is
	packages := []string{"build", "-overlay", filepath.Join(t.TempDir(), "overlay.json")}
	for _, doc := range documents {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for i, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
			require.Regexp(t, snippet, block[1], "%s: Go block %d is not a whole file", doc, i+1)
			name := fmt.Sprintf("%s_%d", strings.TrimSuffix(filepath.Base(doc), ".md"), i+1)
			content := filepath.Join(t.TempDir(), name+".go")
			require.NoError(t, os.WriteFile(content, []byte(block[1]), 0o600))
			replace[filepath.Join(root, "internal", "readmetest", name, "main.go")] = content
			packages = append(packages, "./internal/readmetest/"+name)
		}
	}
	require.GreaterOrEqual(t, len(replace), 2, "the README shows a server and a client")
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(packages[2], overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", packages...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 200)
}

//go:build !race

package readmetest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	quotedTest = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	testFunc   = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// Every test that the documents name is there.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	there, named := map[string]bool{}, map[string]string{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, ".md") {
			for _, m := range quotedTest.FindAllStringSubmatch(string(text), -1) {
				named[m[1]] = path
			}
			return err
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
		}
		return err
	}))
	require.NotEmpty(t, named)
	for name, path := range named {
		require.True(t, there[name], "%s in %s", name, path)
	}
}

// Every row of docs/decisions.md names a test.
func TestEveryDecisionHasATest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/decisions.md")
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(strings.TrimSpace(line), "| Test |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Regexp(t, quotedTest, cells[len(cells)-1], line)
	}
	require.Greater(t, rows, 50, "nothing was read")
}

//go:build !race

package prosetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// phrases make a reader start the sentence again. Before each are the texts that one of them
// contains, in lower case, which are faster to find; after each is the word to use.
var phrases = []struct { //nolint:gochecknoglobals // a constant
	hints []string
	find  *regexp.Regexp
	say   string
}{
	{[]string{"tell"}, regexp.MustCompile(`(?i)\btells?\b`), "reports whether, returns, describes"},
	{[]string{"who"}, regexp.MustCompile(`(?i)\b(for|of|by|and|or|than|,)\s+who(ever)?\s+(is|was|has|had|waits?|wants?|comes?|can|does|did|knows?|needs?|reads?|asks?|keeps?|gives?|makes?|uses?)\b|^\s*Who\s`), "the caller that, the client that"},
	{[]string{"what "}, regexp.MustCompile(`(?i)\bwhat (is|was|were|came|comes|has|had|would|will|did|does|time|others?|it|they|a|the|this|that)\b`), "the name of the thing"},
	{[]string{"body", "noone"}, regexp.MustCompile(`(?i)\b(nobody|somebody|anybody|noone)\b`), "no caller, a caller"},
	{[]string{"else"}, regexp.MustCompile(`(?i)(\bor else\b|, else\b|\bwhich else\b|\bwho else\b|\bElse \w|\bwould else\b|\bwill else\b|\bmust else\b)`), "otherwise"},
	{[]string{" place of"}, regexp.MustCompile(`(?i)\bin (the )?place of\b`), "instead of"},
	{[]string{"further "}, regexp.MustCompile(`(?i)\bfurther (in|out)\b`), "inner, outer"},
	{[]string{" to be", " to have", "be had"}, regexp.MustCompile(`(?i)\b(is|are|was|were) to (be|have)\b|\bto be had\b|\bcan be had\b`), "must, can"},
	{[]string{"those ", "one "}, regexp.MustCompile(`(?i)\b(those|one) (who|which)\b`), "the name of the thing"},
	{[]string{"he", "hi"}, regexp.MustCompile(`\b(he|him|his|He|His)\b`), "the caller, it, they"},
	{[]string{"asked", "told", "believe", "heed", "mind"}, regexp.MustCompile(`(?i)\b(is|are|was|were|been|be) (asked|told|believed|heeded|minded)\b|\b(believes|heeds|minds)\b`), "is called, reports, uses"},
	{[]string{"away"}, regexp.MustCompile(`(?i)\b(is|are|was|were|while|be) away\b`), "unavailable"},
}

// perThousand is the number of phrases that 1,000 words of a folder may have. A folder of
// fewer words may have one.
const perThousand = 1.5

type prose struct {
	words int
	found []string
}

func (p *prose) scan(place, text string) {
	text = strings.Join(strings.Fields(text), " ")
	p.words += len(strings.Fields(text))
	lower := strings.ToLower(text)
	for _, phrase := range phrases {
		if !slices.ContainsFunc(phrase.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			continue
		}
		for _, at := range phrase.find.FindAllStringIndex(text, -1) {
			from, to := max(0, at[0]-40), min(len(text), at[1]+40)
			p.found = append(p.found, fmt.Sprintf("%s: …%s… (say: %s)", place, text[from:to], phrase.say))
		}
	}
}

func (p *prose) scanGo(t *testing.T, name string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
	require.NoError(t, err)
	place := func(n ast.Node) string { return set.Position(n.Pos()).String() }
	for _, group := range file.Comments {
		p.scan(place(group), group.Text())
	}
	ast.Inspect(file, func(n ast.Node) bool { // messages
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ") {
			p.scan(place(lit), lit.Value)
		}
		return true
	})
}

// scanMarkdown reads paragraphs, headings and rows of tables, but no code.
func (p *prose) scanMarkdown(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	code, paragraph := false, ""
	for i, line := range strings.Split(string(data)+"\n", "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			code = !code
		}
		alone := strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#")
		if !fence && !code && !alone && strings.TrimSpace(line) != "" {
			paragraph += " " + line
			continue
		}
		place := fmt.Sprintf("%s:%d", name, i+1)
		p.scan(place, paragraph)
		paragraph = ""
		if alone && !code {
			p.scan(place, line)
		}
	}
}

func TestProseIsPlain(t *testing.T) {
	t.Parallel()
	folders := map[string]*prose{}
	require.NoError(t, filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "prosetest" || strings.HasPrefix(d.Name(), ".") && !strings.HasPrefix(d.Name(), "..")):
			return filepath.SkipDir
		}
		folder := path.Dir(filepath.ToSlash(strings.TrimPrefix(name, "../../")))
		if folders[folder] == nil {
			folders[folder] = &prose{}
		}
		switch {
		case strings.HasSuffix(name, "_test.go"):
		case strings.HasSuffix(name, ".go"):
			folders[folder].scanGo(t, name)
		case strings.HasSuffix(name, ".md"):
			folders[folder].scanMarkdown(t, name)
		}
		return nil
	}))
	require.Greater(t, len(folders), 20, "nothing was read")
	for folder, p := range folders {
		limit := max(1, int(perThousand*float64(p.words)/1000))
		if len(p.found) > max(limit, rest[folder]) {
			slices.Sort(p.found)
			t.Errorf("%s: %d phrases in %d words, at most %d:\n%s", folder, len(p.found), p.words, max(limit, rest[folder]), strings.Join(p.found, "\n"))
		}
		if rest[folder] > max(limit, len(p.found)) {
			t.Errorf("%s: lower its number from %d to %d", folder, rest[folder], len(p.found))
		}
	}
}

func TestPhrasesAreFound(t *testing.T) {
	t.Parallel()
	var p prose
	p.scan("here", "It tells whether somebody is away, in place of his error. Plain words are not found.")
	require.Len(t, p.found, 5)
	require.Equal(t, 16, p.words)
}

package archtest

import (
	"context"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestErrorsFormatPlainValuesOnly reads the source of the module. Printing a pointer, map
// or struct reads what another goroutine may be writing. So each Value of a
// core.ConfigError, and each argument of fmt in the product, is a number, a bool, a
// string, or has a text of its own.
func TestErrorsFormatPlainValuesOnly(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, pkg := range load(t) {
		p := &plainness{pkg: pkg}
		for _, f := range pkg.files {
			ast.Inspect(f, p.find)
		}
		for _, f := range pkg.files {
			ast.Inspect(f, p.check)
		}
		seen += p.seen
		for _, problem := range p.problems {
			t.Error(problem)
		}
	}
	require.Greater(t, seen, 100, "values were looked at")
}

func TestValuesThatAreNotPlainAreSeen(t *testing.T) {
	t.Parallel()
	const source = `package p
import ("fmt"; "time")
type ConfigError struct { Field string; Value any; Reason string }
type registry struct { m map[string]int }
func (r *registry) bad(v any) *ConfigError { return &ConfigError{Value: v} }
func f(r *registry, s []string, d time.Duration, err error, v any) {
	_ = ConfigError{Value: r}
	_ = ConfigError{Value: d}
	_ = r.bad(s)
	_ = r.bad(3)
	bad := func(field string, value any) { _ = &ConfigError{Value: value} }
	bad("a", r.m)
	bad("a", "b")
	_ = fmt.Sprintf("%d %v", 1, r)
	_ = fmt.Errorf("%w %T %s %v", err, r, d, v)
}`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, 0)
	require.NoError(t, err)
	pkg := &checked{fset: fset, files: []*ast.File{file}}
	require.NoError(t, pkg.check("core", importer.Default()))
	p := &plainness{pkg: pkg}
	ast.Inspect(file, p.find)
	ast.Inspect(file, p.check)
	require.Len(t, p.problems, 5)
	for i, line := range []string{"p.go:7:", "p.go:9:", "p.go:12:", "p.go:14:", "p.go:15:"} {
		require.Contains(t, p.problems[i], line)
	}
}

// A checked package is one with its types.
type checked struct {
	fset  *token.FileSet
	files []*ast.File
	types *types.Package
	info  types.Info
}

func (c *checked) check(path string, imports types.Importer) error {
	c.info = types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	var err error
	c.types, err = (&types.Config{Importer: imports}).Check(path, c.fset, c.files, &c.info)
	return err
}

// load returns the packages of the product, which tests share.
func load(t *testing.T) []*checked {
	t.Helper()
	all, err := loadOnce()
	require.NoError(t, err)
	return all
}

var loadOnce = sync.OnceValues(func() (all []*checked, err error) { //nolint:gochecknoglobals // the tests share it
	args := []string{"list", "-deps", "-export", "-f", `{{.ImportPath}}|{{.Export}}|{{.Dir}}|{{join .GoFiles ","}}`}
	if build, ok := debug.ReadBuildInfo(); ok { // with other flags than those of this test, go would compile every package again
		for _, s := range build.Settings {
			if s.Key == "-race" || s.Key == "-gcflags" {
				args = append(args, s.Key+"="+s.Value)
			}
		}
	}
	out, err := exec.CommandContext(context.Background(), "go", append(args, mod+"/...")...).Output()
	if err != nil {
		return nil, err
	}
	exports, fset := map[string]string{}, token.NewFileSet()
	var ours [][]string
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		exports[f[0]] = f[1]
		if name, ok := strings.CutPrefix(f[0], mod+"/"); ok && !strings.HasSuffix(name, "test") && !strings.HasPrefix(name, "examples") && f[3] != "" {
			ours = append(ours, f)
		}
	}
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, f := range ours {
		pkg := &checked{fset: fset}
		for _, name := range strings.Split(f[3], ",") {
			file, err := parser.ParseFile(fset, filepath.Join(f[2], name), nil, 0)
			if err != nil {
				return nil, err
			}
			pkg.files = append(pkg.files, file)
		}
		if err := pkg.check(f[0], imports); err != nil {
			return nil, err
		}
		all = append(all, pkg)
	}
	return all, nil
})

// plainness collects what is formatted, or put into an error, and is not plain.
type plainness struct {
	pkg      *checked
	takes    map[types.Object]int // the functions that make a ConfigError of a parameter, and which
	params   map[types.Object]bool
	seen     int
	problems []string
}

// find finds the functions that hand a parameter on to a ConfigError.
func (p *plainness) find(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		p.taker(n.Name, n.Type, n.Body)
	case *ast.AssignStmt:
		for i, v := range n.Rhs {
			if lit, ok := v.(*ast.FuncLit); ok {
				if name, ok := n.Lhs[i].(*ast.Ident); ok {
					p.taker(name, lit.Type, lit.Body)
				}
			}
		}
	}
	return true
}

func (p *plainness) taker(name *ast.Ident, of *ast.FuncType, body *ast.BlockStmt) {
	if body == nil {
		return
	}
	params, i := map[types.Object]int{}, 0
	for _, field := range of.Params.List {
		for _, id := range field.Names {
			params[p.pkg.info.Defs[id]] = i
			i++
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := p.value(n).(*ast.Ident); ok {
			if at, ok := params[p.pkg.info.Uses[id]]; ok && types.IsInterface(p.pkg.info.Uses[id].Type()) {
				if p.takes == nil {
					p.takes, p.params = map[types.Object]int{}, map[types.Object]bool{}
				}
				p.takes[p.pkg.info.Defs[name]] = at
				p.params[p.pkg.info.Uses[id]] = true
			}
		}
		return true
	})
}

// value returns the Value of a ConfigError that n makes, or nil.
func (p *plainness) value(n ast.Node) ast.Expr {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	if !isConfigError(p.pkg.info.Types[lit].Type) {
		return nil
	}
	for _, e := range lit.Elts {
		if kv := e.(*ast.KeyValueExpr); kv.Key.(*ast.Ident).Name == "Value" {
			return kv.Value
		}
	}
	return nil
}

func isConfigError(of types.Type) bool {
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	named, ok := of.(*types.Named)
	return ok && named.Obj().Name() == "ConfigError"
}

func (p *plainness) check(n ast.Node) bool {
	if v := p.value(n); v != nil {
		if id, ok := v.(*ast.Ident); !ok || !p.params[p.pkg.info.Uses[id]] {
			p.plain(v, false)
		}
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return true
	}
	var name *ast.Ident
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f
	case *ast.SelectorExpr:
		name = f.Sel
	default:
		return true
	}
	callee := p.pkg.info.Uses[name]
	if at, ok := p.takes[callee]; ok {
		p.plain(call.Args[at], false)
	}
	if callee == nil || callee.Pkg() == nil || callee.Pkg().Path() != "fmt" || callee.Name() != "Sprintf" && callee.Name() != "Errorf" {
		return true
	}
	format := p.pkg.info.Types[call.Args[0]].Value
	if format == nil || call.Ellipsis.IsValid() {
		return true // the caller of the caller is looked at by vet
	}
	verbs := strings.Split(strings.ReplaceAll(constant.StringVal(format), "%%", ""), "%")[1:]
	for i, arg := range call.Args[1:] {
		if !strings.HasPrefix(verbs[i], "T") {
			p.plain(arg, true)
		}
	}
	return true
}

// plain notes an expression that is not plain. With text, what has one is.
func (p *plainness) plain(e ast.Expr, text bool) {
	p.seen++
	of := p.pkg.info.Types[e]
	if s, ok := e.(*ast.SelectorExpr); ok && isConfigError(p.pkg.info.Types[s.X].Type) {
		return // that of another one
	}
	if _, basic := of.Type.Underlying().(*types.Basic); basic || of.IsNil() {
		return
	}
	for _, method := range []string{"Error", "String"} {
		if m, _, _ := types.LookupFieldOrMethod(of.Type, true, nil, method); text && m != nil {
			return
		}
	}
	p.problems = append(p.problems, fmt.Sprintf("%s: a %s is not plain", p.pkg.fset.Position(e.Pos()), of.Type))
}

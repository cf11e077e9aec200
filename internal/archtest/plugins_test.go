package archtest

import (
	"context"
	"go/types"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	breakers "github.com/gresil/gresil/plugins/breaker"
	limits "github.com/gresil/gresil/plugins/ratelimit"
	retries "github.com/gresil/gresil/plugins/retry"
	timeouts "github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

func TestPluginsHaveTheSameMethods(t *testing.T) {
	t.Parallel()
	var tested []string
	for _, plugin := range []any{
		(*retries.Client)(nil), (*timeouts.Client)(nil), (*timeouts.Server)(nil),
		(*breakers.Client)(nil), (*breakers.Server)(nil), (*limits.Server)(nil),
	} {
		of := reflect.TypeOf(plugin)
		name := of.Elem().String()
		tested = append(tested, name)
		require.Empty(t, differs(of), name)
	}
	for _, pkg := range load(t) {
		if !strings.HasPrefix(pkg.types.Path(), mod+"/plugins/") {
			continue
		}
		for _, name := range pkg.types.Scope().Names() {
			of := pkg.types.Scope().Lookup(name)
			if _, isType := of.(*types.TypeName); !isType || !of.Exported() || types.IsInterface(of.Type()) {
				continue
			}
			if phase, _, _ := types.LookupFieldOrMethod(of.Type(), true, nil, "Phase"); isMethod(phase) {
				require.Contains(t, tested, pkg.types.Name()+"."+name)
			}
		}
	}
}

func isMethod(of types.Object) bool { _, ok := of.(*types.Func); return ok }

// differs returns the methods of a plugin that it lacks, or has with another signature ("-"), and those that it should not have ("+").
func differs(plugin reflect.Type) (names []string) {
	for _, name := range []string{"Close", "Config", "Name", "SetConfig", "Stats"} { // those of the mechanism that it binds
		if _, ok := plugin.MethodByName(name); ok {
			names = append(names, "+"+name)
		}
	}
	phase, build, bound := reflect.TypeFor[client.Phase](), "Transport", reflect.TypeFor[http.RoundTripper]()
	if _, ok := plugin.MethodByName("Handler"); ok {
		phase, build, bound = reflect.TypeFor[server.Phase](), "Handler", reflect.TypeFor[http.Handler]()
	}
	is := func(want ...reflect.Type) func(...reflect.Type) bool {
		return func(types ...reflect.Type) bool { return slices.Equal(types, want) }
	}
	ctx := reflect.TypeFor[context.Context]()
	for _, want := range []struct {
		name    string
		in, out func(...reflect.Type) bool
	}{
		{build, is(bound), is(bound)},
		{"Override", func(in ...reflect.Type) bool { return len(in) == 2 && in[0] == ctx && disables(in[1]) }, is(ctx)},
		{"Phase", is(), is(phase)},
		{"String", is(), is(reflect.TypeFor[string]())},
	} {
		m, ok := plugin.MethodByName(want.name)
		if !ok || !want.in(params(m.Type)...) || !want.out(slices.Collect(m.Type.Outs())...) {
			names = append(names, "-"+want.name)
		}
	}
	return names
}

// params returns the types of the parameters of a method, without its receiver.
func params(method reflect.Type) []reflect.Type { return slices.Collect(method.Ins())[1:] }

// disables reports whether f is a func(*T) where T has a field Disabled of type bool.
func disables(f reflect.Type) bool {
	if f.Kind() != reflect.Func || f.NumIn() != 1 || f.NumOut() != 0 || f.In(0).Kind() != reflect.Pointer || f.In(0).Elem().Kind() != reflect.Struct {
		return false
	}
	field, ok := f.In(0).Elem().FieldByName("Disabled")
	return ok && field.Type.Kind() == reflect.Bool
}

func TestAPluginThatDiffersIsSeen(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"+Close", "-Handler", "-Override", "-Phase", "-String"}, differs(reflect.TypeFor[*odd]()))
}

// odd is a plugin whose methods have other signatures.
type odd struct{}

func (*odd) Close() error                                                 { return nil }
func (*odd) Phase() client.Phase                                          { return 0 }
func (*odd) Handler(http.Handler, int) http.Handler                       { return nil }
func (*odd) Override(context.Context, func(*http.Cookie)) context.Context { return nil }

// withoutAliases lists the types of core/x in the exported signatures of a plugin package
// that have no alias there. It only shrinks. An interface that users implement need not be named.
var withoutAliases = map[string][]string{ //nolint:gochecknoglobals // a constant
	"ratelimit": {"ratelimit.Values"},
}

// TestPluginsAliasTheTypesOfTheirSignatures does not include the types of core itself,
// such as core.Registry.
func TestPluginsAliasTheTypesOfTheirSignatures(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, pkg := range load(t) {
		if name, ok := strings.CutPrefix(pkg.types.Path(), mod+"/plugins/"); ok {
			m := mentioned{}
			m.add(pkg.types)
			seen += len(m)
			require.Equal(t, withoutAliases[name], m.notAliased(pkg.types), name)
		}
	}
	require.Greater(t, seen, 10)
}

// mentioned are the types of core/x in exported signatures.
type mentioned map[*types.TypeName]bool

func (m mentioned) add(pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		of := pkg.Scope().Lookup(name)
		switch named, _ := of.Type().(*types.Named); {
		case !of.Exported():
		case named == nil || named.Obj() != of: // an alias, a function, a constant, a variable
			if _, alias := of.(*types.TypeName); !alias {
				m.walk(of.Type())
			}
		default:
			m.walk(named.Underlying())
			for method := range named.Methods() {
				if method.Exported() {
					m.walk(method.Type())
				}
			}
		}
	}
}

func (m mentioned) walk(of types.Type) {
	switch of := types.Unalias(of).(type) {
	case *types.Named:
		if p := of.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), mod+"/core/") {
			m[of.Obj()] = true
		}
		for arg := range of.TypeArgs().Types() {
			m.walk(arg)
		}
	case *types.Struct:
		for field := range of.Fields() {
			if field.Exported() {
				m.walk(field.Type())
			}
		}
	case *types.Interface:
		for method := range of.Methods() {
			m.walk(method.Type())
		}
	case *types.Signature:
		for p := range of.Params().Variables() {
			m.walk(p.Type())
		}
		for r := range of.Results().Variables() {
			m.walk(r.Type())
		}
	case *types.Map:
		m.walk(of.Key())
		m.walk(of.Elem())
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		m.walk(of.Elem())
	}
}

func (m mentioned) notAliased(pkg *types.Package) (names []string) {
	aliased := map[*types.TypeName]bool{}
	for _, name := range pkg.Scope().Names() {
		if of, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && of.Exported() && of.IsAlias() {
			if named, ok := types.Unalias(of.Type()).(*types.Named); ok {
				aliased[named.Obj()] = true
			}
		}
	}
	for of := range m {
		if !aliased[of] {
			names = append(names, path.Base(of.Pkg().Path())+"."+of.Name())
		}
	}
	slices.Sort(names)
	return names
}

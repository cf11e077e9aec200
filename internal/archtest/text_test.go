package archtest

import (
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConstantsHaveATextThatIsReadBack is about types such as breaker.State: numbers with a
// String.
func TestConstantsHaveATextThatIsReadBack(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, pkg := range load(t) {
		if strings.Contains(pkg.types.Path(), "/internal") || pkg.types.Name() == "main" {
			continue
		}
		for _, name := range pkg.types.Scope().Names() {
			of, ok := pkg.types.Scope().Lookup(name).(*types.TypeName)
			if !ok || of.IsAlias() || !of.Exported() || !has(of.Type(), "String") {
				continue
			}
			if b, ok := of.Type().Underlying().(*types.Basic); !ok || b.Kind() != types.Uint8 {
				continue // a Phase is any number
			}
			if name == "Outcome" || name == "Source" && pkg.types.Name() == "retry" { // only written
				continue
			}
			seen++
			require.True(t, has(of.Type(), "MarshalText"), "%s.%s", pkg.types.Name(), name)
			require.True(t, has(types.NewPointer(of.Type()), "UnmarshalText"), "%s.%s", pkg.types.Name(), name)
		}
	}
	require.Positive(t, seen)
}

// has reports whether a value of a type has a method.
func has(of types.Type, method string) bool {
	return types.NewMethodSet(of).Lookup(nil, method) != nil
}

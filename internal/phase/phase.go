// Package phase puts plugins in order, those of servers and those of clients
// alike.
package phase

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
)

// A Phase is server.Phase or client.Phase.
type Phase interface {
	~int
	fmt.Stringer
}

// A Plugin has the method that server and client plugins have in common.
type Plugin[P Phase] interface{ Phase() P }

// A Placed plugin is one whose phase was overridden.
type Placed[T any] interface{ Bare() T }

// Bare returns the plugin that was placed, so that its own phase is seen.
func Bare[T any](p T) T {
	for {
		placed, ok := any(p).(Placed[T])
		if !ok {
			return p
		}
		p = placed.Bare()
	}
}

// Missing reports whether p is nil, or a nil pointer, as a constructor returns it
// together with an error.
func Missing[T any](p T) bool { return identity.Missing(Bare(p)) }

// Sort returns the plugins by phase. Lower phases are outermost; ties keep argument
// order. A plugin that is missing, or given twice, or is one of inner, is left out and
// reported as an error. inner are the plugins of a pipeline inside of this one. pkg is for
// the messages.
func Sort[P Phase, T Plugin[P]](pkg string, plugins []T, inner ...T) (sorted []T, errs []error) {
	for i, p := range plugins {
		var e core.ConfigError
		switch {
		case Missing(p):
			e.Reason = "must be a plugin (did its constructor fail?)"
		case slices.ContainsFunc(sorted, same(p)):
			e.Value, e.Reason = Title(p), "must not be in the pipeline twice"
		case slices.ContainsFunc(inner, same(p)):
			e.Value, e.Reason = Title(p), "must not be in the pipeline and in its base"
		default:
			sorted = append(sorted, p)
			continue
		}
		e.Field = fmt.Sprintf("%s.New[%d]", pkg, i)
		errs = append(errs, &e)
	}
	slices.SortStableFunc(sorted, func(a, b T) int { return cmp.Compare(a.Phase(), b.Phase()) })
	return sorted, errs
}

func same[T any](p T) func(T) bool {
	return func(q T) bool { return identity.Same(Bare(p), Bare(q)) }
}

// Inversions returns the pairs of sorted plugins that an overridden phase put the
// other way round than they belong, one line each.
func Inversions[P Phase, T Plugin[P]](pkg string, sorted []T) (found []string) {
	for i, outer := range sorted {
		for _, inner := range sorted[i+1:] {
			if o, n := Bare(outer), Bare(inner); o.Phase() > n.Phase() {
				found = append(found, fmt.Sprintf("%s: %s is outside %s, which belongs outside of it (%v before %v)", pkg, Title(o), Title(n), n.Phase(), o.Phase()))
			}
		}
	}
	return found
}

// Titles returns each plugin with its phase, as in "Attempts retry.Client(api)".
func Titles[P Phase, T Plugin[P]](sorted []T) []string {
	titles := make([]string, len(sorted))
	for i, p := range sorted {
		titles[i] = p.Phase().String() + " " + Title(p)
	}
	return titles
}

// Title returns the text of a plugin, or its type and its name, as in "*client_test.stub(good)".
func Title[T any](p T) string {
	bare := any(Bare(p))
	if s, ok := bare.(fmt.Stringer); ok {
		return s.String()
	}
	if named, ok := bare.(interface{ Name() string }); ok {
		return fmt.Sprintf("%T(%s)", bare, named.Name())
	}
	return fmt.Sprintf("%T", bare)
}

// Close closes the plugins from the outermost to the innermost, and returns their
// errors joined.
func Close[T interface{ Close() error }](sorted []T) error {
	var errs []error
	for _, p := range sorted {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// A Name is that of a phase.
type Name[P Phase] struct {
	Phase P
	Name  string
}

// String returns the name of p, or of the nearest outer one and the distance to it,
// as in "State+10". The names are from the outermost to the innermost.
func String[P Phase](p P, names ...Name[P]) string {
	for _, n := range slices.Backward(names) {
		switch {
		case p == n.Phase:
			return n.Name
		case p > n.Phase:
			return n.Name + "+" + strconv.Itoa(int(p-n.Phase))
		}
	}
	return "Phase(" + strconv.Itoa(int(p)) + ")"
}

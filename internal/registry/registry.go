// Package registry holds named mechanisms and their reports. core.Registry is a type defined by the Registry here, so that
// users see its methods in core alone, and packages of this module convert:
//
//	(*registry.Registry)(cfg.Registry).Add(...)
package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gresil/gresil/internal/announce"
)

// A Registry holds entries. All fields are unexported, so outside of this module a conversion is of no use. The zero value is ready to
// use, and a nil Registry is empty.
type Registry struct {
	mu       sync.Mutex
	entries  []Entry
	reloads  map[string]Reloads // by kind
	watchers []*func(Entry, Change)
	changes  announce.Queue
}

// An Entry is a registered mechanism.
type Entry struct {
	Kind, Name string
	Instance   any // comparable, as a pointer is
	Source     Source
}

// A Change is what happened to an entry.
type Change string

// The changes.
const (
	Added   Change = "added"
	Removed Change = "removed"
)

// Reloads counts the Configs that were set on instances in use.
type Reloads struct {
	Accepted, Refused uint64
	Last              time.Time // of the accepted ones
}

// Add registers a mechanism, and returns a function that removes it. A nil registry registers nothing.
func (r *Registry) Add(e Entry) (remove func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	if e.Kind == "" || e.Name == "" || !utf8.ValidString(e.Kind+e.Name) {
		return nil, errors.New("must be text in UTF-8") // metrics and pages need it
	}
	defer r.changes.Drain()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.find(e.Kind, e.Name) >= 0 {
		return nil, fmt.Errorf("is already registered as %s", e.Kind)
	}
	r.entries = append(r.entries, e)
	r.change(e, Added)
	return func() { r.remove(e) }, nil
}

// find returns the index of an entry, or -1.
func (r *Registry) find(kind, name string) int {
	return slices.IndexFunc(r.entries, func(e Entry) bool { return e.Kind == kind && e.Name == name })
}

// remove removes an entry unless another one has its name by now.
func (r *Registry) remove(e Entry) {
	defer r.changes.Drain()
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.find(e.Kind, e.Name); i >= 0 && r.entries[i].Instance == e.Instance {
		r.entries = slices.Delete(r.entries, i, i+1)
		r.change(e, Removed)
	}
}

// change queues a change for the present watchers. The caller holds the lock.
func (r *Registry) change(e Entry, c Change) {
	for _, f := range r.watchers {
		r.changes.Append(func() { (*f)(e, c) })
	}
}

// Entries returns the entries, sorted by kind and name.
func (r *Registry) Entries() []Entry {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sorted()
}

func (r *Registry) sorted() []Entry {
	all := slices.Clone(r.entries)
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return all
}

// Get returns the entry that has a name within a kind.
func (r *Registry) Get(kind, name string) (Entry, bool) {
	for _, e := range r.Entries() {
		if e.Kind == kind && e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}

// Watch returns the entries, and calls f for each change from now on, in order and without a lock, in the goroutine of the change.
// A change before the call of cancel can arrive after it.
func (r *Registry) Watch(f func(Entry, Change)) (now []Entry, cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = append(r.watchers, &f)
	return r.sorted(), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.watchers = slices.DeleteFunc(r.watchers, func(w *func(Entry, Change)) bool { return w == &f })
	}
}

// Reloaded counts a Config that an instance of a kind has accepted, or refused with an error. A nil registry counts nothing.
func (r *Registry) Reloaded(kind string, err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reloads == nil {
		r.reloads = map[string]Reloads{}
	}
	n := r.reloads[kind]
	if err != nil {
		n.Refused++
	} else {
		n.Accepted++
		n.Last = time.Now()
	}
	r.reloads[kind] = n
}

// Reloads returns the counts of Reloaded of a kind.
func (r *Registry) Reloads(kind string) Reloads {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reloads[kind]
}

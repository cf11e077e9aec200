package core

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gresil/gresil/internal/announce"
	"github.com/gresil/gresil/internal/hook"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/text"
)

// An Entry is one instance in a [Registry].
type Entry struct {
	Kind     string // as "retry": the package name of the mechanism
	Name     string // unique within its kind
	Instance any    // a *retry.Policy, a *breaker.Breaker, …: most often a pointer
	// Tags are those of [Registry.Tag], as they were when the Entry was made. They
	// are nil where there are none. The map is the reader's own.
	Tags map[string]string
}

// RegistryEventKind is a kind of change of an entry.
type RegistryEventKind uint8

// The changes of an entry.
const (
	Added RegistryEventKind = iota
	Replaced
	Removed
	Reconfigured // by [SetConfig]
	Tagged       // by [Registry.Tag], with other tags than before
)

// String returns "added", "replaced", "removed", "reconfigured" or "tagged".
func (k RegistryEventKind) String() string {
	return text.Name(k, "added", "replaced", "removed", "reconfigured", "tagged")
}

// MarshalText returns the text of String. A value without a name is an error.
func (k RegistryEventKind) MarshalText() ([]byte, error) { return text.Marshal(k, Tagged, badText) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (k *RegistryEventKind) UnmarshalText(s []byte) error {
	return text.Unmarshal(k, Tagged, s, badText)
}

// A RegistryEvent describes one change of a [Registry].
type RegistryEvent struct {
	Kind  RegistryEventKind
	Entry Entry // as it is now; when removed, as it was
	Old   any   // when replaced: the instance before
	Err   error // when reconfigured: why the new config was refused and the old one kept; nil when it was not
}

// A Registry holds named instances, for metrics, logs and pages. There is no global
// registry: make one and set it in the Config of each mechanism or plugin. The zero
// value is ready to use.
type Registry struct {
	mu        sync.Mutex
	entries   map[entryKey]any
	tags      map[entryKey]map[string]string // an empty kind or name is any
	listeners []*func(RegistryEvent)         // replaced, never changed: announcements share it
	changes   announce.Queue[announcement]
	panics    hook.Panics
}

type entryKey struct{ kind, name string }

// An announcement is an event and the subscribers at that moment.
type announcement struct {
	event     RegistryEvent
	listeners []*func(RegistryEvent)
}

// Add puts an instance into the registry. A second use of a name within a kind is a
// [*ConfigError], and [Registry.Get] returns the first. So is a kind or name that is empty.
func (r *Registry) Add(kind, name string, instance any) error {
	_, err := r.put("core.Registry.Add", kind, name, instance, false)
	return err
}

// Replace registers an instance instead of the one that has its name, which it returns.
// If the name is not in use, it adds and returns nil. The errors are those of Add, but
// for a name in use.
func (r *Registry) Replace(kind, name string, instance any) (old any, err error) {
	return r.put("core.Registry.Replace", kind, name, instance, true)
}

func (r *Registry) put(method, kind, name string, instance any, replace bool) (old any, err error) {
	if err := checkEntry(method, kind, name, instance); err != nil {
		return nil, err
	}
	defer r.changes.Drain(r.tell)
	r.mu.Lock()
	defer r.mu.Unlock()
	key := entryKey{kind, name}
	old, had := r.entries[key]
	if had && !replace {
		return nil, &ConfigError{Field: method, Value: fmt.Sprintf("(%q, %q)", kind, name), Reason: "is already registered"}
	}
	if r.entries == nil {
		r.entries = map[entryKey]any{}
	}
	r.entries[key] = instance
	e := RegistryEvent{Kind: Added, Entry: r.entryLocked(kind, name, instance)}
	if had {
		e.Kind, e.Old = Replaced, old
	}
	r.changeLocked(e)
	return old, nil
}

// Remove removes an instance if it is still the one that has the name, and reports
// whether it did. So an instance never removes its successor.
func (r *Registry) Remove(kind, name string, instance any) bool {
	defer r.changes.Drain(r.tell)
	r.mu.Lock()
	defer r.mu.Unlock()
	if has, ok := r.entries[entryKey{kind, name}]; !ok || has != instance {
		return false
	}
	delete(r.entries, entryKey{kind, name})
	r.changeLocked(RegistryEvent{Kind: Removed, Entry: r.entryLocked(kind, name, instance)})
	return true
}

// Get returns the instance that has a name within a kind.
func (r *Registry) Get(kind, name string) (instance any, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	instance, ok = r.entries[entryKey{kind, name}]
	return instance, ok
}

// All iterates over the entries as they are now, sorted by kind and name. The
// registry may change while it does.
func (r *Registry) All() iter.Seq[Entry] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Values(r.snapshotLocked())
}

// checkEntry returns a *ConfigError for an entry that cannot be registered. Metrics and
// pages need names in UTF-8; Remove compares instances.
func checkEntry(method, kind, name string, instance any) error {
	e := ConfigError{Field: method, Value: fmt.Sprintf("(%q, %q, %T)", kind, name, instance)}
	switch {
	case kind == "" || name == "" || identity.Missing(instance):
		e.Reason = "needs a kind, a name and an instance"
	case !utf8.ValidString(kind) || !utf8.ValidString(name):
		e.Reason = "kind and name must be UTF-8"
	case !identity.Comparable(instance):
		e.Reason = "the instance must be comparable, as a pointer is"
	default:
		return nil
	}
	return &e
}

func (r *Registry) snapshotLocked() []Entry {
	all := make([]Entry, 0, len(r.entries))
	for k, v := range r.entries {
		all = append(all, r.entryLocked(k.kind, k.name, v))
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return all
}

// Subscribe calls f for every change from now on, in order and without a lock, until
// cancel is called; a change made before that may still be announced. It returns the
// entries at the moment of the subscription: no change is missed, and none is announced
// twice. f runs in the goroutine of the change, must not block, and may use the registry.
// A panic in f is recovered and counted.
func (r *Registry) Subscribe(f func(RegistryEvent)) (now []Entry, cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(slices.Clone(r.listeners), &f)
	return r.snapshotLocked(), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.listeners = slices.DeleteFunc(slices.Clone(r.listeners), func(l *func(RegistryEvent)) bool { return l == &f })
	}
}

// HookPanics is the number of subscribers' calls that ended in a panic.
func (r *Registry) HookPanics() uint64 { return r.panics.Count() }

// changeLocked queues an event for the current subscribers.
func (r *Registry) changeLocked(e RegistryEvent) {
	r.changes.Append(announcement{e, r.listeners})
}

// tell calls the subscribers, also if one of them ends the goroutine.
func (r *Registry) tell(a announcement) {
	if len(a.listeners) > 0 {
		defer r.tell(announcement{a.event, a.listeners[1:]})
		defer r.panics.Recover()
		(*a.listeners[0])(a.event)
	}
}

package core

import (
	"fmt"
	"reflect"
)

// Composed is implemented by registered instances that are built on mechanisms, as
// plugins are. [Lookup], metrics and logs find the mechanisms through it.
type Composed interface {
	// Mechanisms returns the mechanisms, as a *retry.Policy, in a fixed order.
	Mechanisms() []any
}

// Lookup returns the instance that has a name within a kind, if it is a T, or its first
// mechanism that is one ([Composed]). For example, either of these finds the retries of
// a client, the first with the Config of the plugin, the second with that of the policy:
//
//	plugin, ok := core.Lookup[*retry.Plugin](registry, "retry", "payments") // plugins/retry
//	policy, ok := core.Lookup[*retry.Policy](registry, "retry", "payments") // core/retry
func Lookup[T any](r *Registry, kind, name string) (instance T, ok bool) {
	has, _ := r.Get(kind, name)
	if instance, ok = has.(T); ok {
		return instance, true
	}
	if composed, is := has.(Composed); is {
		for _, m := range composed.Mechanisms() {
			if instance, ok = m.(T); ok {
				return instance, true
			}
		}
	}
	return instance, false
}

// SetConfig replaces the config of the instance that has a name within a kind, through
// its method SetConfig(C) error, and announces it to the subscribers ([Reconfigured]).
// C is the Config of the registered instance: that of the plugin for a plugin, whose
// defaults then apply. The state of the instance is kept. If the instance refuses the
// config, it keeps the old one and its error is returned. The error is a [*ConfigError]
// if the name is not registered, if the instance has another Config type, or if the
// instance was removed or replaced meanwhile.
func SetConfig[C any](r *Registry, kind, name string, cfg C) error {
	has, _ := r.Get(kind, name)
	instance, ok := has.(interface{ SetConfig(cfg C) error })
	switch {
	case has == nil:
		return notSet(kind, name, "is not registered")
	case !ok:
		return notSet(kind, name, notTaken(has, reflect.TypeFor[C]()))
	}
	err := instance.SetConfig(cfg)
	announced := r.reconfigured(kind, name, has, err)
	r.changes.Drain(r.tell)
	if err == nil && !announced {
		return notSet(kind, name, "was removed or replaced meanwhile")
	}
	return err
}

// notTaken names the Config type of an instance, and the type that is not that. Two types
// of the same name, as of a plugin and its mechanism, have the path of their package.
func notTaken(instance any, given reflect.Type) string {
	m, ok := reflect.TypeOf(instance).MethodByName("SetConfig")
	if !ok || m.Type.NumIn() != 2 {
		return fmt.Sprintf("takes no config, being a %T, not a %s", instance, given)
	}
	takes := m.Type.In(1)
	if takes.String() == given.String() {
		return fmt.Sprintf("takes a %s.%s, not a %s.%s", takes.PkgPath(), takes.Name(), given.PkgPath(), given.Name())
	}
	return fmt.Sprintf("takes a %s, not a %s", takes, given)
}

func notSet(kind, name, reason string) error {
	return &ConfigError{Field: "core.SetConfig", Value: fmt.Sprintf("(%q, %q)", kind, name), Reason: reason}
}

// reconfigured queues the event of a config, if the instance still has its name.
func (r *Registry) reconfigured(kind, name string, instance any, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[entryKey{kind, name}] != instance {
		return false
	}
	r.changeLocked(RegistryEvent{Kind: Reconfigured, Entry: r.entryLocked(kind, name, instance), Err: err})
	return true
}

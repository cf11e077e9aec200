package registry

import "sync/atomic"

// Keys know whether the keys of an instance are hosts, and no secrets. An instance embeds them, so that plugins find them in it, and users
// see no method.
type Keys struct{ kinds atomic.Uint32 } // bits: 1 if a plugin has hosts as keys, 2 if one has others

func (k *Keys) keys() *Keys { return k }

// BindKeys says for a plugin whether its keys of an instance are hosts.
func BindKeys(to interface{ keys() *Keys }, hosts bool) {
	kind := uint32(2)
	if hosts {
		kind = 1
	}
	to.keys().kinds.Or(kind)
}

// HostKeys reports whether there are plugins, and all have hosts as keys.
func HostKeys(k *Keys) bool { return k.kinds.Load() == 1 }

// OtherKeys reports whether a plugin has keys that are not hosts.
func OtherKeys(k *Keys) bool { return k.kinds.Load()&2 != 0 }

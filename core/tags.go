package core

import (
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"
)

// Tag sets the tags of the entry that has a name within a kind, registered now or later,
// and replaces those of an earlier call. Empty tags remove them. Metrics, logs and pages
// distinguish instances by tags, as a team or a zone.
//
// An empty name stands for every name, and an empty kind for every kind. If an entry has
// a tag from several calls, the one for its kind and name wins, then the one for its
// name, then the one for its kind, then the one for all.
//
// A tag is a word of ASCII letters, digits and underscores that begins neither with a
// digit nor with two underscores, and is not "kind" or "name"; its value is UTF-8. Any
// other tag is a [*ConfigError], and nothing changes. Subscribers are notified of each
// entry whose tags have changed ([Tagged]).
func (r *Registry) Tag(kind, name string, tags map[string]string) error {
	if !utf8.ValidString(kind) || !utf8.ValidString(name) {
		return &ConfigError{Field: "core.Registry.Tag", Value: fmt.Sprintf("(%q, %q)", kind, name), Reason: "kind and name must be UTF-8"}
	}
	for tag, value := range tags {
		if !isTag(tag) {
			return &ConfigError{Field: "core.Registry.Tag", Value: fmt.Sprintf("%q", tag), Reason: "must be a word of letters, digits and underscores, other than kind and name"}
		}
		if !utf8.ValidString(value) {
			return &ConfigError{Field: "core.Registry.Tag", Value: fmt.Sprintf("%s = %q", tag, value), Reason: "must be UTF-8"}
		}
	}
	tags = maps.Clone(tags)
	defer r.changes.Drain(r.tell)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.snapshotLocked()
	if r.tags == nil {
		r.tags = map[entryKey]map[string]string{}
	}
	if len(tags) == 0 {
		delete(r.tags, entryKey{kind, name})
	} else {
		r.tags[entryKey{kind, name}] = tags
	}
	for i, e := range r.snapshotLocked() {
		if !maps.Equal(e.Tags, before[i].Tags) {
			r.changeLocked(RegistryEvent{Kind: Tagged, Entry: e})
		}
	}
	return nil
}

func isTag(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && s != "kind" && s != "name" && !strings.HasPrefix(s, "__")
}

// entryLocked is an entry with its tags.
func (r *Registry) entryLocked(kind, name string, instance any) Entry {
	e := Entry{Kind: kind, Name: name, Instance: instance}
	for _, k := range [...]entryKey{{}, {kind: kind}, {name: name}, {kind, name}} {
		if tags := r.tags[k]; tags != nil {
			if e.Tags == nil {
				e.Tags = make(map[string]string, len(tags))
			}
			maps.Copy(e.Tags, tags)
		}
	}
	return e
}

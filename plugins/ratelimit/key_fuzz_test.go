package ratelimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gresil/gresil/server"
)

// An keyIdentity is whose permits a request takes, told in full.
type keyIdentity struct{ kind, name, value string }

// FuzzKeys looks for two that share a bucket and should not: of requests, of routes, of layers, and of what a handler names.
func FuzzKeys(f *testing.F) {
	f.Add("ann", "", "192.0.2.1:1", "net", "ann", "#ip:192.0.2.1", "@", "all")
	f.Add("#layer:3:net:ann", "#key:x", "", "a", "x", "#key:#key:x", "#peer:", "a:")
	f.Add("#route:2:/a:x", "/b:x", "[2001:db8::1]:1", "1", "#shared", "#layer:1:1:#shared", "2001:db8::/64", "1:1:")
	f.Fuzz(func(t *testing.T, key, other, addr, name, key2, other2, addr2, name2 string) {
		if name == "" || name2 == "" || name == name2 {
			return
		}
		seen := map[string]keyIdentity{}
		add := func(bucket string, id keyIdentity) {
			if was, ok := seen[bucket]; ok && was != id {
				t.Errorf("%q is the bucket of %q and of %q", bucket, was, id)
			}
			seen[bucket] = id
		}
		s, err := NewServer(ServerConfig{
			Key:    keyed(func(r *http.Request) string { return r.Method }),
			Layers: []Layer{{Name: name, Key: keyed(func(r *http.Request) string { return r.Host })}, {Name: name2, Key: keyed(func(r *http.Request) string { return r.Host })}},
			Routes: []Route{{Pattern: "/a", Limit: PerHour(1)}, {Pattern: "/a:x", Limit: PerHour(1)}, {Pattern: "/{b}/3:c", Limit: PerHour(1)}, {Pattern: "/free"}},
		})
		if err != nil {
			return // a layer has the name of the plugin, or of a route
		}
		for _, target := range []string{"/", "/a", "/a:x", "/b/3:c", "/free"} {
			for _, one := range []struct{ key, other, addr string }{{key, other, addr}, {key2, other2, addr2}, {"", "", addr}, {"", "", addr2}} {
				r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
				r.Method, r.Host, r.RemoteAddr = one.key, one.other, one.addr // any text, wherever it comes from
				u := first(s.current.Load().rules(r))
				bucket, ok := s.current.Load().keyOf(u, r)
				if ok != (one.key != "") {
					t.Fatalf("a key of %q: %t", one.key, ok)
				}
				if ok {
					id := keyIdentity{"key", u.mark, one.key}
					add(u.mark+escape(one.key), id) // by TakeKey
					add(bucket, id)
				}
				links := s.current.Load().layered(nil, r)
				if want := 2 * min(1, len(one.other)); len(links) != want {
					t.Fatalf("%d layers, want %d", len(links), want)
				}
				for _, l := range links {
					add(l.key, keyIdentity{"layer", l.name, one.other})
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func first(u *rule, _ []*rule) *rule { return u }

func keyed(f func(*http.Request) string) server.Key {
	return func(r *http.Request) (string, bool) { key := f(r); return key, key != "" }
}

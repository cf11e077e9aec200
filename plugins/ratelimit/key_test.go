package ratelimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gresil/gresil/server"
)

// A key that is cut out of the request is the one that is written otherwise.
func TestServer_PlainKey(t *testing.T) {
	t.Parallel()
	for cfg, plain := range map[*ServerConfig]bool{{}: true, {KeyRequired: true}: true, {Key: server.ByClientIP()}: false, {Key: server.ByFunc(func(*http.Request) string { return "1" })}: false} {
		s, err := NewServer(*cfg)
		if err != nil {
			t.Fatal(err)
		}
		set := s.current.Load()
		for addr, is4 := range map[string]bool{"192.0.2.1:1": true, "0.0.0.0:0": true, "[::1]:1": false, "[::ffff:192.0.2.1]:1": false, "192.0.2.1": false, "@": false, "192.0.2.01:1": false, "a:1": false} {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.RemoteAddr = addr
			key, ok := set.plainKey(set.others, r)
			if ok != (plain && is4) {
				t.Errorf("plainKey(%q) = %t, want %t", addr, ok, plain && is4)
			}
			if want, _ := set.keyOf(nil, set.others, r); ok && key != want {
				t.Errorf("plainKey(%q) = %q, want %q", addr, key, want)
			}
			if key, ok := set.plainKey(&rule{mark: markRoute}, r); ok {
				t.Errorf("plainKey(%q) of a route = %q", addr, key)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

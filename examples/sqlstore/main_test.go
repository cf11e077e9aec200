package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// Two processes, here two handlers with a database of their own over one file, share the limit.
func TestSharedFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "limits.db")
	var allowed, refused, failed atomic.Int64
	var callers sync.WaitGroup
	for range 2 {
		db, err := open(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		values, err := newTable(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		server, err := limits(values)
		if err != nil {
			t.Fatal(err)
		}
		handler := server.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for range 4 {
			callers.Go(func() {
				for range 25 {
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
					switch w.Code {
					case http.StatusOK:
						allowed.Add(1)
					case http.StatusTooManyRequests:
						refused.Add(1)
					default:
						failed.Add(1)
					}
				}
			})
		}
	}
	callers.Wait()
	if allowed.Load() != 100 || refused.Load() != 100 {
		t.Errorf("%d allowed, %d refused, %d failed; want 100, 100, 0", allowed.Load(), refused.Load(), failed.Load())
	}
}

package demoserver

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// flaky fails the first requests of an id, as many as the client asks for.
type flaky struct {
	mu   sync.Mutex
	seen map[string]int
}

const (
	maxIDs  = 10_000
	maxFail = 1000
	maxSlow = 30 * time.Second
)

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	fail, err := strconv.Atoi(r.URL.Query().Get("fail"))
	if id == "" || len(id) > 100 || err != nil || fail < 0 || fail > maxFail {
		http.Error(w, fmt.Sprintf("want id=ID (1 to 100 bytes) and fail=N (0 to %d)", maxFail), http.StatusBadRequest)
		return
	}
	n, ok := f.count(id)
	switch {
	case !ok:
		http.Error(w, fmt.Sprintf("more than %d ids", maxIDs), http.StatusInsufficientStorage)
	case n <= fail:
		http.Error(w, fmt.Sprintf("attempt %d fails", n), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "{\"attempts\":%d}\n", n)
	}
}

func (f *flaky) count(id string) (n int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = map[string]int{}
	}
	if f.seen[id] == 0 && len(f.seen) >= maxIDs {
		return 0, false
	}
	f.seen[id]++
	return f.seen[id], true
}

// unstable is a handler that can be switched off and on.
type unstable struct{ down atomic.Bool }

func (u *unstable) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if u.down.Load() {
		http.Error(w, "down", http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "up")
}

func (u *unstable) set(down bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		u.down.Store(down)
		w.WriteHeader(http.StatusNoContent)
	}
}

// slow answers after a while, or not at all when the client leaves.
func slow(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.URL.Query().Get("d"))
	if err != nil || d < 0 || d > maxSlow {
		http.Error(w, fmt.Sprintf("want d=DURATION, as in 2s, at most %v", maxSlow), http.StatusBadRequest)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		fmt.Fprintln(w, "at last")
	case <-r.Context().Done():
	}
}

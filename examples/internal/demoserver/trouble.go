package demoserver

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gresil/gresil/examples/internal/demo"
)

// flaky fails the first requests of an id, as many as the client asks for.
type flaky struct {
	mu   sync.Mutex
	seen map[string]int
}

const (
	maxIDs  = 10_000 // that are counted; then all are forgotten
	maxSlow = 30 * time.Second
)

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("id")
	fail, err := strconv.Atoi(r.FormValue("fail"))
	if id == "" || len(id) > 100 || err != nil || fail < 0 {
		http.Error(w, "want id=ID (1 to 100 bytes) and fail=N", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) >= maxIDs {
		clear(f.seen)
	}
	f.seen[id]++
	if n := f.seen[id]; n <= fail {
		http.Error(w, fmt.Sprintf("attempt %d fails", n), http.StatusServiceUnavailable)
		return
	}
	demo.WriteJSON(w, map[string]int{"attempts": f.seen[id]})
}

// slow answers after a while, or not at all when the client leaves.
func slow(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.FormValue("d"))
	if err != nil || d < 0 || d > maxSlow {
		http.Error(w, fmt.Sprintf("want d=DURATION, as in 2s, at most %v", maxSlow), http.StatusBadRequest)
		return
	}
	if demo.Sleep(r.Context(), d) == nil {
		fmt.Fprintln(w, "at last")
	}
}

package keyvalue_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver/keyvalue"
	"github.com/gresil/gresil/internal/limits"
)

// A mapStore keeps the values of each table in a map.
type mapStore struct{}

func (mapStore) Open(string) (limits.Table, error) {
	return keyvalue.Table(&mapValues{byKey: map[string][]byte{}}), nil
}

func (mapStore) Close() error { return nil }

type mapValues struct {
	mu    sync.Mutex
	byKey map[string][]byte
}

func (v *mapValues) Update(_ context.Context, key string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch next, _ := f(time.Now(), v.byKey[key]); {
	case next == nil: // nothing changed
	case len(next) == 0:
		delete(v.byKey, key)
	default:
		v.byKey[key] = next
	}
	return nil
}

func Example() {
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Store: mapStore{}, Limit: ratelimit.PerHour(2)}))
	for range 3 {
		r, err := l.Take(context.Background(), "user", 1)
		fmt.Println(r.Allowed, r.Remaining, err)
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

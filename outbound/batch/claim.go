package batch

import (
	"runtime"
	"sync"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
)

// unnamed has the Stores of the batchers of this process without a Name and Method: several of
// them in one Store would send each other's records by mistake.
var unnamed sync.Map //nolint:gochecknoglobals // the batchers of a process have nothing else in common

// claim registers a batcher without a Name and Method. It is an error if another one has its Store.
// Close ends the claim; the garbage collector ends that of a batcher that is dropped.
func (b *Batcher[T, R]) claim(cfg *Config[T, R]) error {
	b.unclaim = func() {}
	if cfg.Name != "" || cfg.Method != "" || !identity.Same(cfg.Store, cfg.Store) { // a value has no identity
		return nil
	}
	if _, taken := unnamed.LoadOrStore(cfg.Store, nil); taken {
		return &core.ConfigError{Field: "batch.Config.Name", Value: `""`, Reason: "must be set, or Method must: another batcher without both has this Store, and each would send the records of the other"}
	}
	store, free := cfg.Store, func(store Store) { unnamed.Delete(store) }
	cleanup := runtime.AddCleanup(b, free, store)
	b.unclaim = func() { cleanup.Stop(); free(store) }
	return nil
}

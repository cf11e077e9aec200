package ratelimit

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
)

// claims are the limiters of this process that have the default name in a Store of the
// user: several without a Name would share their counts by mistake.
var claims struct {
	sync.Mutex
	of map[Store]claim
}

// A claim counts limiters without a Name, and those that are named as these.
type claim struct{ unnamed, named int }

// claim registers s in its Store. It is an error if another limiter shares its counts and
// one of the two has no Name. Close ends the claim; the garbage collector does so for a
// limiter that is dropped.
func (s *shared) claim(cfg *Config) error {
	if cfg.Store == nil || cfg.name() != DefaultName || !identity.Comparable(cfg.Store) {
		return nil
	}
	claims.Lock()
	defer claims.Unlock()
	has, mine := claims.of[cfg.Store], claim{unnamed: 1}
	if cfg.Name != "" {
		mine = claim{named: 1}
	}
	if has.unnamed > 0 || mine.unnamed > 0 && has.named > 0 {
		return &core.ConfigError{Field: "ratelimit.Config.Name", Value: fmt.Sprintf("%q", cfg.Name), Reason: fmt.Sprintf("must be another name: a limiter that is named %q, or has no name, has this Store, and both would count together", DefaultName)}
	}
	if claims.of == nil {
		claims.of = map[Store]claim{}
	}
	claims.of[cfg.Store] = claim{has.unnamed + mine.unnamed, has.named + mine.named}
	store := cfg.Store
	cleanup := runtime.AddCleanup(s, func(mine claim) { unclaim(store, mine) }, mine)
	s.unclaim = func() { cleanup.Stop(); unclaim(store, mine) }
	return nil
}

func unclaim(store Store, mine claim) {
	claims.Lock()
	defer claims.Unlock()
	has := claims.of[store]
	if has = (claim{has.unnamed - mine.unnamed, has.named - mine.named}); has == (claim{}) {
		delete(claims.of, store)
	} else {
		claims.of[store] = has
	}
}

package ratelimit

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/limits"
)

// claims are the limiters of this process that have the default name in a Store of the
// user: several without a Name would share their counts by mistake. The keys are Stores and
// their tables, without wrappers: a Store can have its tables from another, or make a new table
// each time.
var claims = struct { //nolint:gochecknoglobals // the limiters of a process have nothing else in common
	sync.Mutex
	of map[any]claim
}{of: map[any]claim{}}

// A claim counts limiters without a Name, and limiters with the default name.
type claim struct{ unnamed, named int }

// claim registers s, whose table is open. It is an error if another limiter shares the
// counts of s and one of the two has no Name. Close ends the claim; the garbage collector
// ends that of a limiter that is dropped.
func (s *shared) claim(cfg *Config) error {
	if s.own != nil || s.Name() != defaultName {
		return nil
	}
	var keys []any
	for _, key := range []any{cfg.Store, innermost(s.table)} {
		if identity.Same(key, key) { // a value has no identity
			keys = append(keys, key)
		}
	}
	mine := claim{unnamed: 1}
	if cfg.Name != "" {
		mine = claim{named: 1}
	}
	claims.Lock()
	defer claims.Unlock()
	if slices.ContainsFunc(keys, func(key any) bool {
		has := claims.of[key]
		return has.unnamed > 0 || mine.unnamed > 0 && has.named > 0
	}) {
		return &core.ConfigError{Field: "ratelimit.Config.Name", Value: fmt.Sprintf("%q", cfg.Name), Reason: "must be another name: a limiter without a name, or named default, has this Store, and both would count together"}
	}
	mine.add(keys, 1)
	unclaim := func(mine claim) {
		claims.Lock()
		defer claims.Unlock()
		mine.add(keys, -1)
	}
	cleanup := runtime.AddCleanup(s, unclaim, mine)
	s.unclaim = func() { cleanup.Stop(); unclaim(mine) }
	return nil
}

// add adds a claim to keys, n times: with -1 it removes it. The lock is held.
func (c claim) add(keys []any, n int) {
	for _, key := range keys {
		has := claims.of[key]
		has.unnamed, has.named = has.unnamed+n*c.unnamed, has.named+n*c.named
		if claims.of[key] = has; has == (claim{}) {
			delete(claims.of, key)
		}
	}
}

// innermost returns the table that counts: t, or the one that t wraps.
func innermost(t limits.Table) limits.Table {
	for {
		w, wraps := t.(interface{ Unwrap() limits.Table })
		if !wraps {
			return t
		}
		t = w.Unwrap()
	}
}

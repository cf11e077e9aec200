package redisstore

import (
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/stores/denycache"
	"github.com/gresil/gresil/stores/share"
)

// conforms runs the suite in virtual time: a bubble waits for the server without time passing, and the
// server decides by the time of the bubble.
func conforms(t *testing.T, cfg Config) {
	t.Helper()
	conformsOn(t, startServer(t), cfg, func(s *Store) ratelimit.Store { return s })
}

func conformsOn(t *testing.T, srv server, cfg Config, wrap func(*Store) ratelimit.Store) {
	t.Helper()
	var n atomic.Int64
	ratelimittest.Run(t, ratelimittest.Harness{
		Open: func(t *testing.T) ratelimit.Store {
			t.Helper()
			cfg := cfg
			time.Sleep(time.Until(time.UnixMicro(epoch).AddDate(1, 0, 0))) // a bubble begins with 2000
			client := srv.virtual(t)
			cfg.Prefix = "test" + strconv.FormatInt(n.Add(1), 10)
			s := newStore(t, client, cfg)
			s.clock, s.every = time.Now, 10*365*24*time.Hour // a beat now and then would be millions
			return wrap(s)
		},
		Bubble: synctest.Test,
	})
}

func TestStrictConforms(t *testing.T) {
	t.Parallel()
	conforms(t, Config{})
}

func TestCoalescedConforms(t *testing.T) {
	t.Parallel()
	conforms(t, Config{Mode: Coalesced})
}

func TestWrappersOfAStoreConform(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		conformsOn(t, startServer(t), Config{Mode: mode}, inWrappers)
	})
}

// inWrappers is a store with a deny cache and a share in use.
func inWrappers(s *Store) ratelimit.Store {
	return localStore{core.Must(share.New(core.Must(denycache.New(s, denycache.Config{})), share.Config{}))}
}

type localStore struct{ ratelimit.Store }

func (s localStore) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	if err == nil {
		_ = t.(limits.LocalTable).Local() //nolint:forcetypeassert // it is one
	}
	return t, err
}

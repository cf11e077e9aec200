package sqlstore_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/docs/guide/sqlstore"
)

// open is one more process that uses the database.
func open(t *testing.T, path string, limit ratelimit.Limit) (*ratelimit.Limiter, *sql.DB) {
	t.Helper()
	store, db, err := sqlstore.Open(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	l, err := ratelimit.New(ratelimit.Config{Name: "api", Limit: limit, Store: store, OnStoreError: ratelimit.Deny})
	require.NoError(t, err)
	return l, db
}

func rows(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM limits`).Scan(&n))
	return n
}

// Processes that share a database grant together what the limit allows, and no more.
func TestProcessesShareALimit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]ratelimit.Limit{
		"window": ratelimit.FixedWindow(50, 24*time.Hour), "bucket": ratelimit.TokenBucket(50, 24*time.Hour, 50), "log": ratelimit.SlidingLog(50, 24*time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "limits.db")
			var granted atomic.Int64
			var wg sync.WaitGroup
			for range 3 {
				l, _ := open(t, path, limit)
				for range 2 {
					wg.Go(func() {
						for range 20 {
							r, err := l.Take(t.Context(), "ann", 1)
							if err != nil {
								t.Error(err)
							}
							granted.Add(r.Permits)
						}
					})
				}
			}
			wg.Wait()
			require.EqualValues(t, 50, granted.Load())
		})
	}
}

func TestValuesAreKeptAndDeleted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits.db")
	first, db := open(t, path, ratelimit.PerHour(10))
	take, err := first.Take(t.Context(), "any \x00 bytes", 7)
	require.NoError(t, err)
	second, _ := open(t, path, ratelimit.PerHour(10))
	r, err := second.Take(t.Context(), "any \x00 bytes", 4)
	require.NoError(t, err)
	require.False(t, r.Allowed)
	require.EqualValues(t, 3, r.Remaining)
	require.NoError(t, sqlstore.Clean(t.Context(), db))
	require.Equal(t, 1, rows(t, db))
	_, err = db.Exec(`UPDATE limits SET until = 1`)
	require.NoError(t, err)
	require.NoError(t, sqlstore.Clean(t.Context(), db))
	require.Zero(t, rows(t, db))
	require.NoError(t, first.Refund(t.Context(), take)) // of a value that is gone
	require.NoError(t, second.Reset(t.Context(), "any \x00 bytes"))
	require.Zero(t, rows(t, db))
}

func TestErrorsOfTheDatabase(t *testing.T) {
	t.Parallel()
	l, db := open(t, filepath.Join(t.TempDir(), "limits.db"), ratelimit.PerHour(10))
	_, err := db.Exec(`DROP TABLE limits`)
	require.NoError(t, err)
	_, err = l.Take(t.Context(), "ann", 1)
	require.ErrorIs(t, err, ratelimit.ErrStore)
}

// The guide shows the store.
func TestGuide(t *testing.T) {
	t.Parallel()
	store, err := os.ReadFile("store.go")
	require.NoError(t, err)
	guide, err := os.ReadFile("../store-of-your-own.md")
	require.NoError(t, err)
	require.Contains(t, string(guide), "```go\n"+string(store)+"```\n")
}

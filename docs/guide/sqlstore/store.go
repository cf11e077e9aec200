// Package sqlstore keeps the keys of limiters in a table of SQLite, for processes of one machine.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	_ "modernc.org/sqlite" // the driver, without cgo

	"github.com/gresil/gresil/core/ratelimit"
)

// Open opens a database, and makes its table if there is none. Close the database, not the store.
func Open(ctx context.Context, path string) (ratelimit.Store, *sql.DB, error) {
	db, err := sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, nil, err
	}
	if _, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS limits (key BLOB PRIMARY KEY, value BLOB NOT NULL, until INTEGER NOT NULL)`); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return ratelimit.NewStore(values{db}), db, nil
}

// Clean deletes the values that are not needed any more. Call it from time to time.
func Clean(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `DELETE FROM limits WHERE until < ?`, time.Now().Unix())
	return err
}

// values is a ratelimit.Values.
type values struct{ db *sql.DB }

// Update runs f in a transaction that locks the database for writing when it begins, so nothing can change it between read and write.
func (v values) Update(ctx context.Context, key string, f func(now time.Time, old []byte) ([]byte, time.Duration)) error {
	tx, err := v.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a Commit it does nothing

	var old []byte
	err = tx.QueryRowContext(ctx, `SELECT value FROM limits WHERE key = ?`, []byte(key)).Scan(&old)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	now := time.Now() // all processes are on this machine; a server has a clock of its own
	value, keep := f(now, old)
	switch {
	case value == nil:
		return nil
	case keep == 0:
		_, err = tx.ExecContext(ctx, `DELETE FROM limits WHERE key = ?`, []byte(key))
	default:
		until := now.Add(keep).Unix() + 1
		_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO limits (key, value, until) VALUES (?, ?, ?)`, []byte(key), value, until)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// A table keeps the values of limiters. It is a ratelimit.Values.
type table struct{ db *sql.DB }

func newTable(ctx context.Context, db *sql.DB) (table, error) {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS limits (key TEXT PRIMARY KEY, value BLOB NOT NULL, until INTEGER NOT NULL)`)
	return table{db}, err
}

// Update replaces the value of a key in one transaction.
func (t table) Update(ctx context.Context, key string, f func(now time.Time, old []byte) (value []byte, keep time.Duration)) error {
	tx, err := t.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
	var old []byte
	err = tx.QueryRowContext(ctx, `SELECT value FROM limits WHERE key = ?`, key).Scan(&old)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	now := time.Now() // all processes that use the file are on this machine
	value, keep := f(now, old)
	switch {
	case value == nil:
		return nil
	case keep > 0:
		_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO limits (key, value, until) VALUES (?, ?, ?)`, key, value, now.Add(keep).Unix()+1)
	default:
		_, err = tx.ExecContext(ctx, `DELETE FROM limits WHERE key = ?`, key)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

// sweep deletes the values that nobody needs any more. Call it now and then.
func (t table) sweep(ctx context.Context) error {
	_, err := t.db.ExecContext(ctx, `DELETE FROM limits WHERE until < ?`, time.Now().Unix())
	return err
}

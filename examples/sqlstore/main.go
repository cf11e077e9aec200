// Sqlstore limits a server by a table in SQLite, which keeps its limits over a restart and shares them by all processes that use the
// file. It is the program of docs/guide/limits-in-a-database.md.
package main

import (
	"context"
	"database/sql"
	"log"
	"net/http"
	"time"

	_ "modernc.org/sqlite"

	"github.com/gresil/gresil/plugins/ratelimit"
)

func main() {
	db, err := open("limits.db")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	values, err := newTable(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	byIP, err := limits(values)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for range time.NewTicker(time.Minute).C {
			if err := values.sweep(ctx); err != nil {
				log.Print(err)
			}
		}
	}()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello\n")) })
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", byIP.Handler(hello)))
}

// open opens a file in which one transaction writes at a time, and the others wait for it.
func open(file string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(1000)&_pragma=journal_mode(wal)")
}

func limits(values table) (*ratelimit.Server, error) {
	limiter, err := ratelimit.New(ratelimit.Config{
		Name:         "api",
		Limit:        ratelimit.PerHour(100),
		Store:        ratelimit.NewStore(values),
		OnStoreError: ratelimit.Deny,
	})
	if err != nil {
		return nil, err
	}
	return ratelimit.NewServer(limiter, ratelimit.ServerOptions{XRateLimit: true})
}

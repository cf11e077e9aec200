package logs_test

import (
	"log/slog"
	"os"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/logs"
)

func ExampleAdapter() {
	// A handler that leaves out the time, for the sake of this example.
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	registry := &core.Registry{}
	adapter := core.Must(logs.New(registry, slog.New(handler), logs.Config{}))
	defer func() { _ = adapter.Close() }()
	_ = registry.Tag("breaker", "db", map[string]string{"team": "shop"})

	b := core.Must(breaker.New(breaker.Config{Name: "db", Registry: registry})) // attached when it comes
	_ = b.OpenFor(time.Minute)
	// Output:
	// level=INFO msg="circuit breaker changed its state" kind=breaker name=db tags.team=shop from=closed to=open manual=true failure_rate=0 slow_rate=0 open_for=1m0s opened=1
}

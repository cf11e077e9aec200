package logs_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/logs"
)

func ExampleRun() { //nolint:testableexamples // the scheduler decides when Run begins
	registry := &core.Registry{}
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- logs.Run(ctx, registry, logger, logs.Config{}) }()
	core.Must(breaker.New(breaker.Config{Name: "db", Registry: registry}))
	cancel()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
}

package logs_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/logs"
)

// Run belongs beside the server, until it is shut down.
func ExampleAdapter_Run() {
	adapter := core.Must(logs.New(&core.Registry{}, slog.New(slog.DiscardHandler), logs.Config{}))
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { fmt.Println(adapter.Run(ctx)) })
	stop() // at the end of main
	wg.Wait()
	fmt.Println(adapter.Close())
	// Output:
	// <nil>
	// <nil>
}

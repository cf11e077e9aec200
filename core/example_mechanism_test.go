package core_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// A timed mechanism measures the mechanisms inside it and the operation.
type timed struct{ took time.Duration }

func (*timed) Name() string { return "timed" }

func (t *timed) Run(ctx context.Context, next core.Next) (any, error) {
	start := time.Now()
	defer func() { t.took += time.Since(start) }()
	return next.Run(ctx)
}

func ExampleMechanism() {
	measure := &timed{}
	retries := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	pipeline := core.Must(core.NewPipeline(measure, retries))
	attempts := 0
	answer, err := core.Do(context.Background(), pipeline, func(context.Context) (int, error) {
		if attempts++; attempts < 3 {
			return 0, errors.New("busy")
		}
		return 42, nil
	})
	fmt.Println(answer, err, attempts, measure.took > 0)
	fmt.Println(pipeline)
	// Output:
	// 42 <nil> 3 true
	// *core_test.timed(timed) > *retry.Policy(default)
}

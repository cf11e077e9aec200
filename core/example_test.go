package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
)

func ExampleRegistry() {
	registry := &core.Registry{}
	core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry}))
	_, err := ratelimit.New(ratelimit.Config{Name: "api", Registry: registry})
	fmt.Println(err)
	for _, e := range slices.Collect(registry.All()) {
		fmt.Printf("%s %s %T\n", e.Kind, e.Name, e.Instance)
	}
	// Output:
	// ratelimit.Config.Name = api: is already registered as ratelimit
	// ratelimit api *ratelimit.Limiter
}

// A page or a program can find a mechanism by its name, and change it.
func ExampleLookup() {
	registry := &core.Registry{}
	core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry}))
	limiter, ok := core.Lookup[*ratelimit.Limiter](registry, "api")
	fmt.Println(ok, limiter.SetConfig(ratelimit.Config{Limit: ratelimit.PerMinute(5)}), limiter.Config().Limit)
	// Output: true <nil> 5/1m
}

func ExampleDo() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Name: "vendor", Limit: ratelimit.PerMinute(2)}))
	pipeline := core.Must(core.NewPipeline(limiter))
	for range 3 {
		answer, err := core.Do(context.Background(), pipeline, func(context.Context) (string, error) { return "42", nil })
		after, _ := core.RetryAfter(err)
		fmt.Printf("%q rejected=%t after=%v\n", answer, errors.Is(err, core.ErrRejected), after.Round(time.Minute))
	}
	fmt.Println(pipeline)
	// Output:
	// "42" rejected=false after=0s
	// "42" rejected=false after=0s
	// "" rejected=true after=1m0s
	// ratelimit(vendor)
}

func ExamplePipeline_Check() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Name: "vendor"}))
	outer := core.Must(breaker.New(breaker.Config{Name: "vendor"}))
	for _, found := range core.Must(core.NewPipeline(outer, limiter)).Check() {
		fmt.Println(found)
	}
	// Output:
	// core: breaker(vendor) is outside ratelimit(vendor), which belongs outside of it (ratelimit before breaker)
}

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
	// core_test(timed) > retry(default)
}

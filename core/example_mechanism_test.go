package core_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/ratelimit"
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
	retries := core.Must(retry.New(retry.Config{Backoff: backoff.None{}}))
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

// A page or a file of settings changes an instance by its name.
func ExampleSetConfig() {
	registry := &core.Registry{}
	limiter := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry}))

	fmt.Println(core.SetConfig(registry, "ratelimit", "api", ratelimit.Config{Limit: ratelimit.PerMinute(5)}))
	fmt.Println(limiter.Limit())
	fmt.Println(core.SetConfig(registry, "ratelimit", "api", retry.Config{}))
	fmt.Println(core.SetConfig(registry, "ratelimit", "apj", ratelimit.Config{}))
	// Output:
	// <nil>
	// 5/1m
	// core.SetConfig = ("ratelimit", "api"): takes a ratelimit.Config, not a retry.Config
	// core.SetConfig = ("ratelimit", "apj"): is not registered
}

// A pool is built on two mechanisms, which metrics and logs find through it.
type pool struct {
	limiter *ratelimit.Limiter
	retries *retry.Policy
}

func (p *pool) Mechanisms() []any { return []any{p.limiter, p.retries} }

func ExampleComposed() {
	registry := &core.Registry{}
	p := &pool{core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(5)})), core.Must(retry.New(retry.Config{}))}
	fmt.Println(registry.Add("pool", "db", p))
	limiter, ok := core.Lookup[*ratelimit.Limiter](registry, "pool", "db")
	fmt.Println(limiter.Limit(), ok)
	// Output:
	// <nil>
	// 5/1m true
}

// Replace exchanges an instance without a moment in which its name is free.
func ExampleRegistry_Replace() {
	registry := &core.Registry{}
	first, second := &pool{}, &pool{}
	fmt.Println(registry.Replace("pool", "db", first))
	_, cancel := registry.Subscribe(func(e core.RegistryEvent) { fmt.Println(e.Kind, e.Old == first) })
	defer cancel()
	old, err := registry.Replace("pool", "db", second)
	fmt.Println(old == first, err)
	has, _ := registry.Get("pool", "db")
	fmt.Println(has == second, registry.Remove("pool", "db", first))
	// Output:
	// <nil> <nil>
	// replaced true
	// true <nil>
	// true false
}

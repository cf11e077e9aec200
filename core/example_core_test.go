package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
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

// A page or a program changes a mechanism by its name.
func ExampleLookup() {
	registry := &core.Registry{}
	core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry}))
	limiter, ok := core.Lookup[*ratelimit.Limiter](registry, "api")
	fmt.Println(ok, limiter.SetConfig(ratelimit.Config{Limit: ratelimit.PerMinute(5)}), limiter.Limit())
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
	// *ratelimit.Limiter(vendor)
}

func ExampleConfigError() {
	_, err := ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(-1), MaxKeys: -1})
	fmt.Println(errors.Is(err, core.ErrConfig))
	fmt.Println(err)
	// Output:
	// true
	// ratelimit.Config.Limit = -1/1m: must have 1 to 274877906944 permits
	// ratelimit.Config.MaxKeys = -1: must be 0 to 1073741824 (0 means 1048576)
}

func ExamplePipeline_Check() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Name: "vendor"}))
	outer := core.Must(breaker.New(breaker.Config{Name: "vendor"}))
	for _, found := range core.Must(core.NewPipeline(outer, limiter)).Check() {
		fmt.Println(found)
	}
	// Output:
	// core: *breaker.Breaker(vendor) is outside *ratelimit.Limiter(vendor), which belongs outside of it (ratelimit before breaker)
}

package ratelimit_test

import (
	"encoding/json"
	"fmt"

	"github.com/gresil/gresil/core/ratelimit"
)

func ExampleLimit_UnmarshalText() {
	var limit ratelimit.Limit
	if err := limit.UnmarshalText([]byte("10/1s burst 20 and 1000/1h")); err != nil { // as from a flag or a file
		fmt.Println(err)
	}
	fmt.Println(limit.Capacity(), limit)
	fmt.Println(limit.UnmarshalText([]byte("-5/1m")))
	// Output:
	// 20 10/1s burst 20 and 1000/1h
	// ratelimit.Limit.Permits = -5: must be 1 to 274877906944 (only the zero Limit means 1000)
}

func ExampleLimit_MarshalText() {
	text, err := json.Marshal(map[string]ratelimit.Limit{"free": ratelimit.PerMinute(10), "gold": ratelimit.PerSecond(5).And(ratelimit.PerHour(1000))})
	fmt.Println(string(text), err)
	// Output: {"free":"10/1m","gold":"5/1s and 1000/1h"} <nil>
}

func ExampleAlgorithm() {
	var a ratelimit.Algorithm
	fmt.Println(a.UnmarshalText([]byte("token_bucket")), a)
	fmt.Println(a.UnmarshalText([]byte("leaky")))
	// Output:
	// <nil> token_bucket
	// ratelimit.Algorithm = "leaky": must be fixed_window, token_bucket, sliding_window, sliding_counter or sliding_log
}

func ExampleFailurePolicy() {
	var policy ratelimit.FailurePolicy
	fmt.Println(policy.UnmarshalText([]byte("local")), policy)
	fmt.Println(policy.UnmarshalText([]byte("open")))
	// Output:
	// <nil> local
	// ratelimit.FailurePolicy = "open": must be allow, deny or local
}

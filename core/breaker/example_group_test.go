package breaker_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

func ExampleGroup() {
	hosts := core.Must(breaker.NewGroup(breaker.Config{Name: "hosts", Window: 1}, 500))
	call := func(host string, err error) {
		_, _ = breaker.Do(context.Background(), hosts.Get(host), func(context.Context) (int, error) { return 0, err })
	}
	call("a.example", errors.New("out of order"))
	call("b.example", nil)
	for key, b := range hosts.All() {
		fmt.Println(key, b.State())
	}
	fmt.Println(hosts.Stats().States[breaker.Open], "open")
	// Output:
	// a.example open
	// b.example closed
	// 1 open
}

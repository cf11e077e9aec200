package core_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

type number int

func (number) String() string { return "a number" }

func TestAConfigErrorPrintsPlainValuesAndNamesTheTypeOfOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, "<nil>"},
		{-5, "-5"},
		{0.5, "0.5"},
		{true, "true"},
		{"text", "text"},
		{time.Second, "1s"},
		{number(1), "a number"},
		{[]int{1}, "[]int"},
		{map[string]int{"a": 1}, "map[string]int"},
		{struct{ n int }{1}, "struct { n int }"},
		{&core.Registry{}, "*core.Registry"},
		{(&core.Registry{}).HookPanics, "func() uint64"},
	} {
		require.EqualError(t, &core.ConfigError{Field: "f", Value: c.value, Reason: "no"}, "f = "+c.want+": no")
	}
}

func TestAConfigErrorIsPrintedWhileItsRegistryChanges(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	err := error(&core.ConfigError{Field: "f", Value: registry, Reason: "no"})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 2000 {
			if err := registry.Add("kind", strconv.Itoa(i), &i); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2000 {
		for _, verb := range []string{"%v", "%+v", "%s", "%q", "%x"} {
			if fmt.Sprintf(verb, err) == "" {
				t.Error("no text")
			}
		}
	}
	wg.Wait()
}

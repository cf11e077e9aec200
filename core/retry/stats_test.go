package retry_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/registry"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends []error
		not  string // of the Decision
		want string // but for those that are 0
	}{
		"success":             {[]error{nil}, "", "calls_total success false 1"},
		"recovered":           {[]error{errBoom, nil}, "", "calls_total success true 1, retries_total 1, backoff_seconds backoff 2"},
		"told":                {[]error{asks(5 * time.Second), nil}, "", "calls_total success true 1, retries_total 1, backoff_seconds retry_after 5"},
		"permanent":           {[]error{core.Permanent(errBoom)}, "", "calls_total failure false 1"},
		"not repeatable":      {[]error{errBoom}, "not_repeatable", "calls_total failure false 1, suppressed_total not_repeatable 1"},
		"an adapter's reason": {[]error{errBoom}, "too_big", "calls_total failure false 1, suppressed_total other 1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &registry.Registry{}
			p := core.Must(retry.New(retry.Config{
				Registry: (*core.Registry)(r), Backoff: backoff.Constant{Delay: 2 * time.Second}, Budget: core.Must(retry.NewBudget(0, 9)),
			}))
			_, err := retry.Loop(t.Context(), p, (&script{ends: c.ends}).run, func(_ string, err error) retry.Decision {
				return retry.Decision{Retry: err != nil, Not: c.not}
			})
			require.Equal(t, c.ends[len(c.ends)-1] != nil, err != nil)
			e, _ := r.Get("retry", "default")
			var got []string
			for _, f := range e.Source.Figures() {
				if f.Dist != nil {
					f.N = f.Dist.Sum.Seconds()
				}
				if f.Name == "budget_left" {
					require.EqualValues(t, p.Config().Budget.Left(), f.N)
				} else if f.N != 0 {
					for i := 1; i < len(f.Labels); i += 2 {
						f.Name += " " + f.Labels[i]
					}
					got = append(got, fmt.Sprint(f.Name, " ", f.N))
				}
			}
			require.Equal(t, c.want, strings.Join(got, ", "), name)
		})
	}
}

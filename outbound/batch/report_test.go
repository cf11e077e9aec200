package batch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/jobs"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r core.Registry
		v := &vendor{answer: answers}
		b := v.start(t, func(c *config) { c.Registry = &r })
		add(t, b, "o", "1", "bad", "2")
		time.Sleep(time.Minute + time.Second)
		add(t, b, "o", "3")
		time.Sleep(time.Second)
		require.NoError(t, b.Flush(t.Context(), "o"))
		time.Sleep(time.Second)
		var got []string
		for _, f := range entry(t, &r).Source.Figures() {
			got = append(got, strings.TrimSpace(fmt.Sprint(f.Name, " ", strings.Join(f.Labels, "="), " ", f.N)))
		}
		require.Equal(t, []string{
			"calls_total  2", "limited_total  0", "splits_total  0", "added_total  4", "records_total result=sent 3", "records_total result=failed 1",
			"in_flight  0", "waiting  0", "records  1",
		}, got)
	})
}

// What is given up, and what the engine does not do, is logged as a warning; calls only for those who want to hear of them.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		s := &failing{Store: groups.NewMemory()}
		q := groups.Open(jobs.Memory())
		v := &vendor{answer: answers}
		b := v.start(t, func(c *config) {
			c.Engine, c.FlushSize = groups.NewEngine(q, s), 3
			c.Registry = eventtest.Registry(func(_ context.Context, e registry.Event) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("%s %q %t %t %t %v %v", e.Text, e.Key, e.Call, e.Warn, e.Outage, e.Attr("records"), e.Err()))
			})
		})
		add(t, b, "o", "1", "bad", "2")
		time.Sleep(1300 * time.Millisecond) // between two looks
		s.set(errNo)
		time.Sleep(2500 * time.Millisecond)
		s.set(nil)
		time.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, `call ended "o" true false false 3 <nil>
records failed "o" false true false 1 no
engine failed "" false true true <nil> no
engine has recovered "" false false true <nil> <nil>`, strings.Join(slices.Compact(got), "\n"), "each look fails")
	})
}

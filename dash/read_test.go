package dash_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/internal/registry"
)

// An instance that fails, panics or takes too long is shown with its error, and what could be read of it and of the others.
func TestInstanceThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := []registry.Row{{Key: "read", Verbs: []string{"pause"}}}
		end := make(chan struct{})
		all := &core.Registry{}
		for name, read := range map[string]func(context.Context) ([]registry.Row, error){
			"fails":  func(context.Context) ([]registry.Row, error) { return rows, errors.New("GET redis://u:secret@host") },
			"panics": func(context.Context) ([]registry.Row, error) { panic("no rows") },
			"slow": func(ctx context.Context) ([]registry.Row, error) {
				<-ctx.Done()
				return rows, errors.New("connection lost")
			},
			"stuck":    func(context.Context) ([]registry.Row, error) { <-end; return rows, nil },
			"unharmed": func(context.Context) ([]registry.Row, error) { return rows, nil },
		} {
			source := (&fake{}).source()
			source.Rows = read
			put(t, all, "jobs", name, source)
		}
		h := handler(t, all, dash.Config{Controls: allow})
		began := time.Now()
		table := state(t, h, "").Tables[0]
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Equal(t, map[string]string{
			"fails": "GET redis://host", "panics": "panic: no rows", "slow": "no answer within 2s", "stuck": "no answer within 2s",
		}, table.Errors)
		require.Equal(t, 4, table.Attention)
		read := map[string]bool{}
		for _, row := range table.Rows {
			read[row.Name] = read[row.Name] || *row.Row == "read"
		}
		require.Equal(t, map[string]bool{"fails": true, "panics": false, "slow": true, "stuck": false, "unharmed": true}, read)
		page := get(h, "/").Body.String()
		require.Contains(t, page, "<strong>slow</strong> could not be read: no answer within 2s")
		require.Contains(t, page, "Pause slow read")
		close(end)
		synctest.Wait()
		require.NotContains(t, state(t, h, "").Tables[0].Errors, "stuck")
	})
}

// Readers of one moment share one reading, which outlives the reader that has begun it.
func TestReadersShareOneReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var readings atomic.Int32
		all := &core.Registry{}
		put(t, all, "jobs", "outbox", registry.Source{Rows: func(ctx context.Context) ([]registry.Row, error) {
			readings.Add(1)
			select {
			case <-time.After(time.Second):
				return []registry.Row{{Key: "mail"}}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}})
		h := handler(t, all, dash.Config{})
		leaving, leave := context.WithCancel(t.Context())
		done := make(chan string)
		for i := range 8 {
			go func() {
				r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/?n=%d", i+1), nil)
				if i == 0 {
					r = r.WithContext(leaving)
				}
				done <- send(h, r).Body.String()
			}()
			synctest.Wait()
		}
		leave()
		require.Contains(t, <-done, "could not be read")
		for range 7 {
			require.NotContains(t, <-done, "could not be read")
		}
		require.EqualValues(t, 1, readings.Load())
		require.Contains(t, get(h, "/").Body.String(), "<td>mail</td>")
		require.EqualValues(t, 2, readings.Load())
	})
}

// Instances of two kinds can have the same name.
func TestReadingsOfOneName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &core.Registry{}
		for _, kind := range []string{"jobs", "gate"} {
			put(t, all, kind, "outbox", registry.Source{Rows: func(context.Context) ([]registry.Row, error) {
				time.Sleep(time.Millisecond) // both are read at the same time
				return []registry.Row{{Key: "row of " + kind}}, nil
			}})
		}
		page := get(handler(t, all, dash.Config{}), "/").Body.String()
		require.Contains(t, page, "<td>row of jobs</td>")
		require.Contains(t, page, "<td>row of gate</td>")
	})
}

// Figures and Config are shown with the row of the whole instance, wherever it stands.
func TestRowOfTheWhole(t *testing.T) {
	t.Parallel()
	all := &core.Registry{}
	put(t, all, "batch", "outbox", registry.Source{
		Config: func() any { return settled{URL: "x"} },
		Rows:   func(context.Context) ([]registry.Row, error) { return []registry.Row{{Key: "a"}, {Key: ""}}, nil },
	})
	shown := map[string]bool{}
	for _, row := range state(t, handler(t, all, dash.Config{}), "").Tables[0].Rows {
		shown[*row.Row] = len(row.Config) > 0
	}
	require.Equal(t, map[string]bool{"": true, "a": false}, shown)
}

// Views, changes of the registry and readings that fail, at once.
func TestManyReadersAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, all := many(t, 10)
		put(t, all, "gate", "panics", registry.Source{Rows: func(context.Context) ([]registry.Row, error) { panic("x") }})
		h := handler(t, all, dash.Config{Controls: allow})
		done := make(chan int)
		for i := range 8 {
			go func() {
				rows := 0
				for range 5 {
					rows += strings.Count(get(h, fmt.Sprintf("/?n=%d&q=v&kind=gate&sort=active", i+1)).Body.String(), "<td>v00")
				}
				done <- rows
			}()
		}
		for i := range 20 {
			put(t, all, "gate", fmt.Sprintf("n%d", i), (&fake{}).source())
		}
		for range 8 {
			require.Positive(t, <-done)
		}
	})
}

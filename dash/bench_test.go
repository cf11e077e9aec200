package dash_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/outbound/batch"
)

func manyGroups(b *testing.B) *core.Registry {
	b.Helper()
	f, registry := &fake{}, &core.Registry{}
	for i := range 10_000 {
		f.groups = append(f.groups, batch.GroupInfo{Method: "m", Option: fmt.Sprintf("option %d", i), Pending: i % 977, Bytes: int64(i), Oldest: time.Now(), NextFlush: time.Now()})
	}
	put(b, registry, "batch", "crm", f)
	return registry
}

func manyInstances(b *testing.B) *core.Registry {
	b.Helper()
	registry := &core.Registry{}
	for i := range 10_000 {
		_, err := breaker.New(breaker.Config{Name: fmt.Sprint(i), Registry: registry})
		require.NoError(b, err)
	}
	return registry
}

func BenchmarkView(b *testing.B) {
	for name, registry := range map[string]func(*testing.B) *core.Registry{"10000 groups": manyGroups, "10000 instances": manyInstances} {
		h, err := dash.New(registry(b), dash.Config{Controls: true})
		require.NoError(b, err)
		for _, path := range []string{"/", "/api/state", "/api/state?q=9"} {
			b.Run(name+" "+path, func(b *testing.B) {
				b.ReportAllocs()
				size := 0
				for b.Loop() {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
					size = w.Body.Len()
				}
				b.ReportMetric(float64(size), "B/page")
			})
		}
	}
}

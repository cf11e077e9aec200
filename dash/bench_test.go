package dash_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/dash"
)

func BenchmarkView(b *testing.B) {
	var keys []string
	instances := &core.Registry{}
	for i := range 10_000 {
		keys = append(keys, fmt.Sprintf("option %d", i))
		_, err := breaker.New(breaker.Config{Name: fmt.Sprint(i), Registry: instances})
		require.NoError(b, err)
	}
	_, rows := faked(b, keys...)
	for name, registry := range map[string]*core.Registry{"10000 rows": rows, "10000 instances": instances} {
		h := handler(b, registry, dash.Config{Controls: allow})
		for _, path := range []string{"/", "/state", "/state?q=9"} {
			b.Run(name+" "+path, func(b *testing.B) {
				b.ReportAllocs()
				size := 0
				for b.Loop() {
					size = get(h, path).Body.Len()
				}
				b.ReportMetric(float64(size), "B/page")
			})
		}
	}
}

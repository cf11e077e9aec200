package gate_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gresil/gresil/outbound/gate"
)

func TestDbg(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{pauses: 4, busy: 1}
		v.tell = seconds(http.StatusTooManyRequests)
		w := newWorld(t, v, gate.Config{Limits: []gate.Limit{{N: 30, Per: time.Second}}, InFlight: 60}, 0, false)
		start := time.Now()
		go func() {
			for range 200 {
				time.Sleep(500 * time.Millisecond)
				t.Log(time.Since(start), w.g.Stats(), len(w.g.Holds()))
			}
		}()
		w.run(load{30, time.Second}, overPool(w))
	})
}

//go:build soak

package standard_test

import (
	"net"
	"testing"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

func TestSoakGoroutines(t *testing.T) { checkGoroutines(t, 1000) }

func TestSoakEveryFailureInMemory(t *testing.T) {
	load{requests: 10_048, least: 1004, kinds: 10, atOnce: 64, attempt: 10 * time.Second}.inMemory(t)
}

func TestSoakEveryFailureOverSockets(t *testing.T) {
	load{requests: 10_048, least: 1004, kinds: 10, atOnce: 64, attempt: 400 * time.Millisecond, slack: resiltest.Patience}.overSockets(t)
}

func (l load) overSockets(t *testing.T) {
	t.Helper()
	l.run(t, func(string) net.Listener { return core.Must(net.Listen("tcp", "127.0.0.1:0")) })
}

//go:build soak

package standard_test

import (
	"testing"
	"time"

	"github.com/gresil/gresil/internal/resiltest"
)

func TestSoakEveryFailureInMemory(t *testing.T) {
	load{requests: 10_048, least: 1004, kinds: 10, atOnce: 64, attempt: 10 * time.Second}.inMemory(t)
}

func TestSoakEveryFailureOverSockets(t *testing.T) {
	load{requests: 10_048, least: 1004, kinds: 10, atOnce: 64, attempt: 400 * time.Millisecond, slack: resiltest.Patience}.overSockets(t)
}

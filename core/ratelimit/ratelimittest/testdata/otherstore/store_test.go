package otherstore

import (
	"testing"
	"testing/synctest"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/ratelimittest"
)

func TestAStoreOutsideConforms(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, ratelimittest.Harness{
		Open:   func(*testing.T) ratelimit.Store { return &Store{} },
		Bubble: synctest.Test,
	})
}

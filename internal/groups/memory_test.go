package groups_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/groups/groupstest"
)

func open(t *testing.T, _ string, test func(*testing.T, groups.Store, func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, groups.NewMemory(), time.Sleep) })
}

func TestMemory(t *testing.T) {
	t.Parallel()
	groupstest.Run(t, open)
}

// Results are known for ten minutes.
func TestMemoryResultLife(t *testing.T) {
	t.Parallel()
	groupstest.Script(t, open, "q", `add a 1; flush; next p; replace p 1=; sleep 9m59s; add a 2; flush; next p; replace p 2=
		results 1 2 = 1= 2=; sleep 1s; results 1 2 = 2=; add a 1 = 1; sleep 9m59s; results 1 2 = 1?`)
}

package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/dispatch"
)

type named struct{ name string }

func (n *named) String() string { return n.name }

// Its owner may be changing a map that it points to.
func TestThePointerOfAKeyIsNotFollowedForALog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		owned := &struct{ tags map[string]string }{map[string]string{"tag": "content"}}
		for key, want := range map[any]string{
			owned:           fmt.Sprintf("%T(%p)", owned, owned),
			&named{"known"}: "known",
			"text":          "text",
			7:               "7",
			nil:             "<nil>",
		} {
			var got []string
			d := core.Must(dispatch.New(dispatch.Config[any, none]{Attempts: 1, Classify: classify, Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
				if e.Key != "" && !e.Call {
					got = append(got, e.Key)
				}
			})}))
			_, err := dispatch.Do(t.Context(), d, key, func(context.Context, none) (int, error) { return 0, limited(time.Second) })
			require.ErrorIs(t, err, dispatch.ErrRateLimited)
			require.Equal(t, []string{want}, got)
		}
	})
}

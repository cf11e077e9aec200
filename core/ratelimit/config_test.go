package ratelimit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// A constructor returns a nil pointer together with an error.
func TestAStoreThatIsANilPointerIsRefused(t *testing.T) {
	t.Parallel()
	_, err := ratelimit.New(ratelimit.Config{Name: "l", Store: (*switchedStore)(nil)})
	require.EqualError(t, err, "ratelimit.Config.Store = a nil pointer: must be a store, or nil for state in memory")
}

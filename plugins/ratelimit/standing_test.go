package ratelimit

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// TestAStandingIsAWholeResult: it holds exactly the results that it can return, whatever field of the Result,
// or element of a field, has another value.
func TestAStandingIsAWholeResult(t *testing.T) {
	t.Parallel()
	held := 0
	for _, granted := range []int64{0, 3} {
		r := limits.Result{Allowed: true, Plan: 2, Permits: granted}
		if granted > 0 {
			r.Receipt.Plans[0], r.Receipt.Parts[0] = 2, 7
		}
		require.True(t, new(standing).hold(&r))
		var change func(v reflect.Value)
		change = func(v reflect.Value) {
			old := reflect.ValueOf(v.Interface())
			switch v.Kind() { //nolint:exhaustive // those that there are
			case reflect.Struct:
				for i := range v.NumField() {
					change(v.Field(i))
				}
				return
			case reflect.Array:
				for i := range v.Len() {
					change(v.Index(i))
				}
				return
			case reflect.Bool:
				v.SetBool(!v.Bool())
			case reflect.String:
				return // the key, which a Charge has
			case reflect.Interface:
				v.Set(reflect.ValueOf("more"))
				old = reflect.Zero(v.Type())
			case reflect.Uint16, reflect.Uint64:
				v.SetUint(v.Uint() + 300)
			default:
				v.SetInt(v.Int() + 300) // more than a byte
			}
			var s standing
			if s.hold(&r) {
				held++
				require.Equal(t, r, s.result())
			} else {
				require.NotEqual(t, r, s.result())
			}
			v.Set(old)
		}
		change(reflect.ValueOf(&r).Elem())
	}
	require.Equal(t, 14, held)
}

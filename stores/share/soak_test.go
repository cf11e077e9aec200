//go:build soak

package share

import "testing"

func TestSoakAShareBoundsItsKeys(t *testing.T) { checkBounds(t, 0) }

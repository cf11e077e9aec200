//go:build soak

package redisstore

import "testing"

func TestSoakDecidesAsMemoryDoes(t *testing.T)  { checkDecides(t, 20) }
func TestSoakAFloodForgivesNoDebt(t *testing.T) { checkFlood(t, "12mb", 200_000) }

//go:build soak

package memory

import (
	"testing"
	"time"
)

func TestSoakDay(t *testing.T)                   { checkDay(t, 24*time.Hour) }
func TestSoakOracle(t *testing.T)                { checkOracle(t, 400) }
func TestSoakTakeOneIsApply(t *testing.T)        { checkTakeOne(t, 300) }
func TestSoakManyBucketsAreGone(t *testing.T)    { checkSweep(t, 200_000) }
func TestSoakFlood(t *testing.T)                 { checkFlood(t, 4000, 10) }
func TestSoakDebtInAFlood(t *testing.T)          { checkDebtInAFlood(t, 40_000) }
func TestSoakMemoryAgreesWithAMap(t *testing.T)  { checkAgainstAMap(t, 200_000) }
func TestSoakBucketAgreesWithXTime(t *testing.T) { checkAgainstXTime(t, 1_000_000) }

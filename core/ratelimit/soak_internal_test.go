//go:build soak

package ratelimit

import (
	"testing"
	"time"
)

func TestSoakDay(t *testing.T)                     { checkDay(t, 24*time.Hour) }
func TestSoakNoDriftAtThreePerSecond(t *testing.T) { checkNoDrift(t, 24*time.Hour) }
func TestSoakEveryRate(t *testing.T)               { checkEveryRate(t, 300) }
func TestSoakOracle(t *testing.T)                  { checkOracle(t, 400) }
func TestSoakOracleOfSeveralLimits(t *testing.T)   { checkOracleOfSeveral(t, 300) }
func TestSoakTakeOneIsApply(t *testing.T)          { checkTakeOne(t, 300) }
func TestSoakSettings(t *testing.T)                { checkSettings(t, 60) }
func TestSoakManyBucketsAreGone(t *testing.T)      { checkSweep(t, 200_000) }
func TestSoakAlignedWindows(t *testing.T)          { checkAlignedWindows(t, 1000) }
func TestSoakFlood(t *testing.T)                   { checkFlood(t, 4000, 10) }
func TestSoakDebtInAFlood(t *testing.T)            { checkDebtInAFlood(t, 40_000) }
func TestSoakMemoryShrinks(t *testing.T)           { checkShrinks(t, 200_000) }
func TestSoakMemoryAgreesWithAMap(t *testing.T)    { checkAgainstAMap(t, 200_000) }
func TestSoakBucketAgreesWithXTime(t *testing.T)   { checkAgainstXTime(t, 1_000_000) }

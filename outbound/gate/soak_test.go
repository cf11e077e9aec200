//go:build soak

package gate_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/gate"
)

// At least 85 % of the ideal at a distance of 30 ms.
func TestSoakSharedRate(t *testing.T) {
	quiettest.Repeat(t, func() error { return sharedRate(t, 4*time.Second, 0) })
}

// At least 85 % of the places are used while calls wait, and each process gets at least 15 % of them.
func TestSoakSharedPlaces(t *testing.T) {
	quiettest.Repeat(t, func() error { return sharedPlaces(t, 8*time.Second, 500*time.Millisecond, 0) })
}

// Four processes, over a real server, for three minutes.
func TestSoakTokens(t *testing.T) {
	for name, row := range map[string]struct {
		load          tokenLoad
		refused, used float64 // at most, and at least
	}{
		"exact":                  {tokenLoad{50, 1500, 1, 1, 1500, 0, false, 4 * time.Second}, 0, 0.90},
		"half to one and a half": {tokenLoad{50, 1500, 0.5, 1.5, 1500, 1000, true, 4 * time.Second}, 0.01, 0.85},
		"a third of the tokens":  {tokenLoad{10_000, 10_000, 1, 1, 10_000, 0, false, 4 * time.Second}, 0, 0.66},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quiettest.Repeat(t, func() error {
				open := func(cfg gate.Config) []*gate.Gate { return processes(t, redistest.Start(t).Addr, 4, cfg) }
				if refused, used := row.load.run(t, open, 30_000, time.Minute, 3); refused > row.refused || used < row.used {
					return errors.New("too many were refused, or too few used")
				}
				return nil
			})
		})
	}
}

// Twenty pauses of each row.
func TestSoakNoCallInsideToldPause(t *testing.T) { noCallInsideToldPause(t, 20) }

// For a minute, also far from the Store.
func TestSoakClasses(t *testing.T) { testClasses(t, time.Minute, true) }

// The same over a real server.
func TestSoakSharedClasses(t *testing.T) {
	const while = time.Minute
	t.Parallel()
	for name, fill := range map[string]bool{"four": false, "four, full": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quiettest.Repeat(t, func() error {
				gates := processes(t, redistest.Start(t).Addr, 4, gate.Config{Limits: perSecond(50)})
				background, waits := classes(t, gates[:1], gates[1:], fill, while)
				p99 := waits[len(waits)*99/100]
				t.Logf("a second: %.1f interactive calls; %.1f background calls; p99 %v", float64(len(waits))/while.Seconds(), background, p99)
				least := 5 - 1/while.Seconds() // where the count begins is chance
				if !fill {
					least = 25
				}
				if background < least || !fill && p99 > 100*time.Millisecond {
					return fmt.Errorf("%v background calls a second; p99 %v", background, p99)
				}
				return nil
			})
		})
	}
}

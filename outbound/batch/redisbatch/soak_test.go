//go:build soak

package redisbatch

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/pace"
)

// TestSoakKills: four processes send 100,000 records of 100 options to a vendor that takes a tenth of a
// second, while 50 times one of them is killed at a random moment, and another one started. Every record
// arrives, and again only with the key of its call. No record is added meanwhile.
func TestSoakKills(t *testing.T) {
	srv := startServer(t)
	client := srv.client(t)
	v := newVendor(t)
	v.latency = 100 * time.Millisecond
	p := process{Redis: srv.Addr, Vendor: v.URL, Lease: time.Second}
	all, flush := p.put(t, client, 100_000, 100)
	flush()
	var alive [4]*running
	for i := range alive {
		p.Name = fmt.Sprint(i)
		alive[i] = p.start(t)
	}
	for kill := range 50 {
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond) //nolint:gosec // no secret
		i := rand.IntN(len(alive))                                   //nolint:gosec // no secret
		alive[i].kill(t)
		p.Name = fmt.Sprint(kill + len(alive))
		alive[i] = p.start(t)
	}
	early := len(v.records())
	require.Less(t, early, len(all), "the kills came too late to matter")
	drained(t, client, 5*time.Minute)
	duplicates := v.judge(t, all)
	require.Positive(t, duplicates, "no kill hit a call")
	require.Empty(t, keys(t, client))
	t.Logf("%d records, %d sent before the last kill, %d calls, %d records sent again", len(all), early, len(v.calls), duplicates)
}

// TestSoakTwoProcessesShareTheRate: 40,000 records of 50 options.
func TestSoakTwoProcessesShareTheRate(t *testing.T) {
	shareTheRate(t, 40_000, 50, pace.Rate{Calls: 100, Per: 2 * time.Second}, 200*time.Millisecond)
}

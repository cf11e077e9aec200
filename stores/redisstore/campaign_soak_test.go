//go:build soak

package redisstore

import "testing"

// TestSoakCampaigns: two million calls of twenty campaigns, from four processes.
func TestSoakCampaigns(t *testing.T) {
	for _, mode := range []Mode{Strict, Coalesced} {
		t.Run(string(mode), func(t *testing.T) { checkCampaigns(t, mode, 2_000_000, 1000) })
	}
}

package bench

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/stores/redisstore"
)

// Subjects of the row of a pacer: a permit in both modes of the store, beside a strict decision.
const (
	PacedStrict    = "permit, strict"
	PacedCoalesced = "permit, coalesced"
)

// paced grants permits that need no wait. It spaces them by 1ms, behind a
// burst that lasts: as with [rich], a key owes more and more.
func paced(m redisstore.Mode) maker {
	const burst = 1 << 28
	rate := pace.Rate{Calls: burst + 9999, Per: 6 * time.Second, Burst: burst} // 10,000 in Per and Slack
	return func(client redis.UniversalClient) (decider, error) {
		store, err := redisstore.New(client, redisstore.Config{Mode: m, Timeout: patient})
		if err != nil {
			return nil, err
		}
		p, err := pace.New(pace.Config{Name: unused("pace"), Rates: []pace.Rate{rate}, Slack: 4 * time.Second, Store: store})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, key string) (bool, error) {
			permit, err := p.Wait(ctx, key, 1)
			return permit.Cost == 1, err
		}, nil
	}
}

// paceMakers compares paced permits with decisions.
func paceMakers() map[string]maker {
	all := bucketMakers(rich)
	return map[string]maker{Strict: all[Strict], PacedStrict: paced(redisstore.Strict), PacedCoalesced: paced(redisstore.Coalesced), FloorGCRA: all[FloorGCRA]}
}

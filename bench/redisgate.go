package bench

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/stores/redisstore"
)

// GatePermit is a permit of a gate with a Store, beside a strict decision.
const GatePermit = "permit of a gate"

// gated grants permits that need no wait. It spaces them by 1ms, behind a burst that lasts: as with [rich], a key owes more and more.
func gated(client redis.UniversalClient) (decider, error) {
	const burst = 1 << 28
	limit := gate.Limit{Name: "key", Key: gate.ByCall, N: burst + 9999, Per: 6 * time.Second, Burst: burst} // 10,000 in Per and Slack
	store, err := redisstore.New(client, redisstore.Config{Timeout: patient})
	if err != nil {
		return nil, err
	}
	g, err := gate.New(gate.Config{Name: unused("gate"), Limits: []gate.Limit{limit}, Slack: 4 * time.Second, Store: store})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		permit, err := g.Wait(ctx, gate.Call{Keys: map[string]string{"key": key}})
		if err != nil {
			return false, err
		}
		permit.Done(nil)
		return true, nil
	}, nil
}

// gateMakers compares permits of a gate with decisions.
func gateMakers() map[string]maker {
	all := bucketMakers(rich)
	return map[string]maker{Strict: all[Strict], GatePermit: gated, FloorGCRA: all[FloorGCRA]}
}

package dash

import (
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/dispatch"
	"github.com/gresil/gresil/outbound/pace"
)

// dispatchers shows the dispatchers of outbound/dispatch: cooldowns, pools, results.
func dispatchers() *section {
	return &section{
		kind: "dispatch", title: "Vendors",
		columns: []column{
			{"state", "State"},
			{"until", "Until"},
			{"held", "Cooldowns now"},
			{"in_flight", "In flight"},
			{"limit", ""},
			{"active", "Calls"},
			{"waiting", "Waiting"},
			{"connections", "Connections"},
			{"idle", "Idle"},
			{"attempts", "Attempts"},
			{"limited", "Limited"},
			{"cooldowns", "Cooldowns"},
			{"succeeded", "Succeeded"},
			{"failed", "Failed"},
			{"gave_up", "Gave up"},
			{"canceled", "Canceled"},
			{"rejected", "Rejected"},
			{"dials", ""},
			{"evicted", ""},
			{"store_failures", "Store failures"},
			{"hook_panics", ""},
		},
		reads: func(e registry.Entry) reader {
			d, ok := as[interface{ Snapshot() dispatch.Snapshot }](e.Instance)
			if !ok {
				return nil
			}
			return func(_ context.Context, v view) ([]row, error) { return []row{dispatcher(d.Snapshot(), v)}, nil }
		},
	}
}

// A hold is a cooldown in JSON.
type hold struct {
	Scope   string    `json:"scope"`
	Account *string   `json:"account"` // nil if it is not shown
	Until   time.Time `json:"until"`
}

func dispatcher(snap dispatch.Snapshot, v view) row {
	s := snap.Stats
	state, until, r := word("running", "ok"), none(), row{volume: float64(s.Active)}
	held, lines := []hold{}, []string(nil)
	for _, one := range snap.Held {
		h := hold{Scope: one.Scope.String(), Until: one.Until.UTC()}
		line := h.Scope
		switch {
		case one.Scope == dispatch.ScopeVendor:
			state, until, r.rank = word("cooling_down", "bad"), instant(one.Until, v.now), 2
		case v.keys:
			h.Account = &one.Account
			line += " " + short(visible(one.Account))
		}
		if len(held) < maxLines {
			held = append(held, h)
		}
		lines = append(lines, line+": until "+stamp(one.Until)+", "+relative(one.Until, v.now))
	}
	if len(held) > 0 && r.rank == 0 {
		state, r.rank = word("accounts_cooling_down", "warn"), 1
	}
	r.cells = []cell{
		state, until, list(len(snap.Held), held, lines), of(s.InFlight, s.Limit), number(s.Limit), number(s.Active), number(s.Waiting),
		number(s.Connections), number(s.Idle), number(s.Attempts), number(s.Limited), number(s.Cooldowns), number(s.Succeeded),
		number(s.Failed), alarm(s.GaveUp), number(s.Canceled), alarm(s.Rejected), number(s.Dials), number(s.Evicted),
		alarm(s.StoreFailures), number(s.HookPanics),
	}
	return r
}

// pacers shows the pacers of outbound/pace: rates, slots ahead, results.
func pacers() *section {
	return &section{
		kind: "pace", title: "Paces",
		columns: []column{
			{"mode", "Mode"},
			{"rates", "Rates"},
			{"keys", "Keys"},
			{"keys_total", ""},
			{"ahead_s", "Slots ahead"},
			{"waiting", "Waiting"},
			{"reserved", "Reserved"},
			{"permits", "Permits"},
			{"waited", "Waited"},
			{"stale", "Stale"},
			{"lost", "Lost"},
			{"rejected", "Rejected"},
			{"store_errors", "Store errors"},
			{"refreshed", "Rates read"},
			{"refresh_failed", "Rates not read"},
			{"hook_panics", ""},
		},
		reads: func(e registry.Entry) reader {
			p, ok := as[interface{ Snapshot() pace.Snapshot }](e.Instance)
			if !ok {
				return nil
			}
			return func(_ context.Context, v view) ([]row, error) { return []row{pacer(p.Snapshot(), v)}, nil }
		},
	}
}

// A rate is a limit in JSON.
type rate struct {
	Calls int64 `json:"calls"`
	Per   span  `json:"per_s"`
	Burst int64 `json:"burst"`
}

// A key is the state of a key in JSON.
type key struct {
	Key      string `json:"key"`
	Waiting  int    `json:"waiting"`
	Reserved int    `json:"reserved"`
	Ahead    span   `json:"ahead_s"`
}

func pacer(snap pace.Snapshot, v view) row {
	s := snap.Stats
	limits, words := rates(snap.Rates)
	keys, lines, ahead := []key{}, []string(nil), time.Duration(0)
	for _, one := range snap.Keys {
		ahead = max(ahead, one.Ahead)
		if !v.keys {
			continue
		}
		if len(keys) < maxLines {
			keys = append(keys, key{one.Key, one.Waiting, one.Reserved, span(one.Ahead)})
		}
		lines = append(lines, fmt.Sprintf("%s: %d waiting, %d reserved, %s ahead", short(visible(one.Key)), one.Waiting, one.Reserved, rough(one.Ahead)))
	}
	r := row{volume: float64(s.Waiting + s.Reserved)}
	if s.Waiting > 0 {
		r.rank = 1
	}
	r.cells = []cell{
		word(snap.Mode.String(), ""),
		{Text: words, value: limits},
		list(len(snap.Keys), keys, lines), number(len(snap.Keys)), lasting(ahead),
		number(s.Waiting), number(s.Reserved), number(s.Permits), number(s.Waited), alarm(s.Stale), alarm(s.Lost), alarm(s.Rejected),
		alarm(s.StoreErrors), number(s.Refreshed), alarm(s.RefreshFailed), number(s.HookPanics),
	}
	return r
}

package ratelimit

import (
	"testing"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// FuzzApply runs operations of one key under two limits and looks for what must
// never be: more in a window than its limit, waits that are not waits, minted
// permits.
func FuzzApply(f *testing.F) {
	f.Add(int64(5), int64(time.Minute), int64(0), []byte{1, 2, 3, 200, 7, 0, 255, 9})
	f.Add(int64(3), int64(time.Second), int64(3), []byte{0, 0, 0, 40, 0, 80, 12, 60})
	f.Add(int64(1)<<38, int64(1), int64(0), []byte{3, 3, 3})
	f.Add(int64(999_999_937), int64(time.Second), int64(999_999_937), []byte{1, 0xff, 0xff, 8, 16})
	f.Fuzz(func(t *testing.T, permits, period, burst int64, ops []byte) {
		s := limits.Spec{Permits: permits, Period: time.Duration(period), Burst: burst}
		if burst != 0 {
			s.Algorithm = limits.TokenBucket
		}
		l := of(s)
		s.Permits = permits/2 + 1
		lower := of(s) // of the same kind
		if l.check("") != nil || lower.check("") != nil {
			return
		}
		tab, ids := newTestTable(t, 0, l, PerMinute(7), lower)
		capacity := limits.Limit(l).Capacity()
		now := int64(0)
		var last Result
		for i, b := range ops {
			now += int64(b>>4) * max(1, period/16)
			op := limits.Op{Kind: limits.OpKind(b & 3), Cost: capacity * int64(b>>2&3) / 2, MaxWait: time.Duration(period)}
			if op.Kind == limits.Refund {
				op.Cost, op.Receipt = last.Permits, last.Receipt
			}
			id := ids[0]
			switch {
			case op.Kind == limits.Refund && last.Receipt.Plan != nil:
				id = last.Receipt.Plan
			case b == 255:
				id, op.Cost = ids[1], 1
			case b == 254:
				id = ids[2]
			}
			r, err := eitherAt(tab, now, "k", id, op)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case r.Remaining < 0 || r.Remaining > r.Limit, r.Permits < 0 || r.Permits > op.Cost && op.Kind != limits.Refund,
				r.NextAfter < 0 || r.FullAfter < 0 || r.Wait < 0 || r.Wait > op.MaxWait,
				r.RetryAfter < 0 && r.RetryAfter != limits.Never, r.Allowed && r.RetryAfter != 0,
				!r.Allowed && r.Permits != 0, r.Remaining < r.Limit && r.NextAfter == 0, r.NextAfter > r.FullAfter:
				t.Fatalf("op %d %+v at %d under %v: %+v", i, op, now, l, r)
			}
			if !r.Allowed && r.RetryAfter > 0 && op.Kind == limits.Take {
				if early, _ := eitherAt(tab, now, "k", id, op); early.Allowed {
					t.Fatalf("op %d: allowed %v before its time", i, r.RetryAfter)
				}
				now += int64(r.RetryAfter)
				if late, _ := eitherAt(tab, now, "k", id, op); !late.Allowed {
					t.Fatalf("op %d %+v: refused at the quoted time: %+v then %+v", i, op, r, late)
				}
			}
			if r.Allowed && op.Kind != limits.Refund {
				last = r
			}
		}
	})
}

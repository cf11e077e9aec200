package memory

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
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
		if l.check() != nil || lower.check() != nil {
			return
		}
		tab, ids := newTestTable(t, 0, l, PerMinute(7), lower)
		capacity := capacityOf(l)
		now := int64(0)
		var last limits.Result
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

// bytesSource makes of what a fuzzer gives the numbers that agree asks for. After
// their end they go on, somehow.
type bytesSource struct {
	data []byte
	more uint64
}

func (s *bytesSource) Uint64() uint64 {
	if len(s.data) < 2 {
		s.more = s.more*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
		return s.more
	}
	v := uint64(s.data[0]) | uint64(s.data[1])<<8
	s.data = s.data[2:]
	return v * 0x0001000100010001 // in the upper bits as in the lower ones
}

// FuzzOracle runs operations of one key against the oracle of a limit of any kind.
func FuzzOracle(f *testing.F) {
	some := []byte("\x00\x01\x00\x02\x00\x03\x00\x04\x10\x20\x30\x40\x50\x60\x70\x80\x90\xa0\xb0\xc0\xd0\xe0\xf0\xff")
	text := []byte("some text is as good as any, if it is long enough to have refunds in it as well as takes")
	for kind := range uint8(7) {
		f.Add(kind, int64(1), int64(time.Second), 2, []byte("one a second"))
		f.Add(kind, int64(5), int64(time.Minute), 10, []byte{1, 2, 3, 200, 7, 0, 255, 9, 0, 0, 0, 1, 128, 128, 77, 76, 75, 74, 10, 0, 9, 1, 3, 3})
		f.Add(kind, int64(60), int64(997*6), 6, some)
		f.Add(kind, int64(3), int64(2), 2, []byte("the shortest period that has two segments"))
		f.Add(kind, int64(1000), int64(250*time.Second), 5, text)
	}
	f.Fuzz(func(t *testing.T, kind uint8, permits, nanoseconds int64, segments int, ops []byte) {
		n, period := permits, time.Duration(nanoseconds)
		sliding, counter := SlidingWindow(n, period, segments), SlidingCounter(n, period)
		several := FixedWindow(n, period).And(SlidingWindow(n+1, period, segments)).And(SlidingCounter(n+2, period/2+1)).
			And(SlidingLog(n/2+1, period/3+1))
		bucket := TokenBucket(n, period, int64(segments))
		l := []Limit{FixedWindow(n, period), AlignedWindow(n, period), sliding, counter, SlidingLog(n, period), bucket, several}[kind%7]
		// A window that is longer or larger than that is not counted to the nanosecond.
		if l.check() != nil || permits > 1000 || segments > 1000 || period > 250*time.Second {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			agree(t, rand.New(&bytesSource{data: ops}), l, min(200, 20+len(ops)/6))
		})
	})
}

// FuzzRefunds is TestRefundsMintNothing for any bucket and log.
func FuzzRefunds(f *testing.F) {
	f.Add(int64(1), int64(time.Second), int64(4), []byte("take two, take two, give the first back"))
	f.Add(int64(3), int64(997), int64(7), []byte{1, 2, 3, 200, 7, 0, 255, 9, 0, 0, 0, 1, 128, 128, 77, 76, 75, 74, 10, 0, 9, 1, 3, 3})
	f.Fuzz(func(t *testing.T, permits, period, burst int64, ops []byte) {
		bucket, log := TokenBucket(permits, time.Duration(period), burst), SlidingLog(permits, time.Duration(period))
		if bucket.check() != nil || log.check() != nil || permits > 1000 || burst > 1000 || period > int64(time.Hour) {
			return
		}
		for _, c := range []refundCase{
			{limits: []Limit{bucket}, reserve: true},
			{limits: []Limit{bucket}, evict: true},
			{limits: []Limit{bucket.And(log)}, reserve: true},
			{limits: []Limit{log, SlidingLog(permits/2+1, time.Duration(period))}},
		} {
			c.run(t, rand.New(&bytesSource{data: ops}), min(200, 20+len(ops)/4))
		}
	})
}

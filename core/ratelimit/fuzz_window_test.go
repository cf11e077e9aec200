package ratelimit

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

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

// fuzzLimit runs operations of one key against the oracle of a limit.
func fuzzLimit(f *testing.F, limit func(permits, period int64, segments int) Limit) {
	f.Helper()
	f.Add(int64(1), int64(time.Second), 2, []byte("one a second"))
	f.Add(int64(5), int64(time.Minute), 10, []byte{1, 2, 3, 200, 7, 0, 255, 9, 0, 0, 0, 1, 128, 128, 77, 76, 75, 74, 10, 0, 9, 1, 3, 3})
	f.Add(int64(60), int64(997*6), 6, []byte("\x00\x01\x00\x02\x00\x03\x00\x04\x10\x20\x30\x40\x50\x60\x70\x80\x90\xa0\xb0\xc0\xd0\xe0\xf0\xff"))
	f.Add(int64(3), int64(2), 2, []byte("the shortest period that has two segments"))
	f.Add(int64(1000), int64(250*time.Second), 5, []byte("some text is as good as any, if it is long enough to have refunds in it as well as takes"))
	f.Fuzz(func(t *testing.T, permits, period int64, segments int, ops []byte) {
		l := limit(permits, period, segments)
		// A window that is longer or larger than that is not counted to the nanosecond.
		if l.check("") != nil || permits > 1000 || period > int64(250*time.Second) {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			agree(t, rand.New(&bytesSource{data: ops}), l, min(200, 20+len(ops)/6))
		})
	})
}

func FuzzFixedWindow(f *testing.F) {
	fuzzLimit(f, func(n, period int64, _ int) Limit { return FixedWindow(n, time.Duration(period)) })
}

func FuzzAligned(f *testing.F) {
	fuzzLimit(f, func(n, period int64, _ int) Limit { return AlignedWindow(n, time.Duration(period)) })
}

func FuzzSlidingWindow(f *testing.F) {
	fuzzLimit(f, func(n, period int64, segments int) Limit { return SlidingWindow(n, time.Duration(period), segments) })
}

func FuzzSlidingCounter(f *testing.F) {
	fuzzLimit(f, func(n, period int64, _ int) Limit { return SlidingCounter(n, time.Duration(period)) })
}

func FuzzSlidingLog(f *testing.F) {
	fuzzLimit(f, func(n, period int64, _ int) Limit { return SlidingLog(n, time.Duration(period)) })
}

func FuzzSeveralWindows(f *testing.F) {
	fuzzLimit(f, func(n, period int64, segments int) Limit {
		return FixedWindow(n, time.Duration(period)).And(SlidingWindow(n+1, time.Duration(period), segments)).And(SlidingCounter(n+2, time.Duration(period)/2+1)).And(SlidingLog(n/2+1, time.Duration(period)/3+1))
	})
}

package limits

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// Append appends the account in bytes, which [Plans.Decode] reads. Each count has its limit, so
// that any process can read it.
func (a *Account) Append(to []byte, now int64) []byte {
	to = binary.AppendVarint(to, now)
	for _, c := range a.Counts() {
		s := c.Rule.Spec
		for _, n := range []uint64{
			uint64(s.Algorithm), bit(s.Aligned), bit(c.Replaced), bit(c.Joined),
			uint64(s.Permits), uint64(s.Period), uint64(s.Burst), uint64(s.Segments), c.Word, uint64(len(c.List)),
		} {
			to = binary.AppendUvarint(to, n)
		}
		for _, n := range c.List {
			to = binary.AppendVarint(to, n)
		}
	}
	return to
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

var errBytes = errors.New("ratelimit: the value of the key cannot be read")

// Decode reads an account that was written at a time, without the counts whose words are too old.
func (s *Plans) Decode(from []byte, now int64) (a Account, at int64, err error) {
	r := reader{bytes: from}
	for at = r.int(); len(r.bytes) > 0 && a.n < maxCounts; {
		var spec driver.Spec
		var c Count
		spec.Algorithm, spec.Aligned, c.Replaced, c.Joined = driver.Algorithm(r.uint()), r.uint() == 1, r.uint() == 1, r.uint() == 1
		spec.Permits, spec.Period, spec.Burst, spec.Segments = int64(r.uint()), time.Duration(r.uint()), int64(r.uint()), int(r.uint())
		c.Word = r.uint()
		for n := r.uint(); n > 0 && !r.failed; n-- {
			c.List = append(c.List, r.int())
		}
		if r.failed {
			break
		}
		p, err := s.Add([]driver.Spec{spec})
		if err != nil {
			return Account{}, 0, err
		}
		if c.Rule = p.Rules[0]; c.Rule.Listed() || (now-at)/5 <= c.Rule.Horizon {
			a.Add(c)
		}
	}
	if r.failed || len(r.bytes) > 0 {
		return Account{}, 0, errBytes
	}
	return a, at, nil
}

// A reader reads numbers from bytes.
type reader struct {
	bytes  []byte
	failed bool
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.bytes)
	r.skip(n)
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.bytes)
	r.skip(n)
	return v
}

func (r *reader) skip(n int) {
	if n <= 0 {
		r.failed, n = true, len(r.bytes)
	}
	r.bytes = r.bytes[n:]
}

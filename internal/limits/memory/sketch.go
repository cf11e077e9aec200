package memory

import (
	"math/bits"

	"github.com/gresil/gresil/internal/limits"
)

// A sketch keeps the usage of evicted keys: a count-min sketch (Cormode and Muthukrishnan, 2005).
// A cell holds the highest value that was added to it, and a key reads the lowest of its cells.
// That is never less than the value added for the key. Recovered usage counts as none, so cells
// need no clearing.
type sketch struct {
	mask  uint64
	until int64 // when the last of the debts is repaid
	cells []limits.Debt
}

const sketchRows = 4

// newSketch is sized to the keys of a shard.
func newSketch(keys int) *sketch {
	width := 1 << bits.Len(uint(max(64, keys/sketchRows)-1))
	return &sketch{mask: uint64(width - 1), cells: make([]limits.Debt, sketchRows*width)}
}

// cell is the cell of a key in a row.
func (s *sketch) cell(key uint64, row int) *limits.Debt {
	x := (key + uint64(row)) * 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return &s.cells[uint64(row)*(s.mask+1)+x>>32&s.mask]
}

func (s *sketch) add(key uint64, d limits.Debt, now int64) {
	s.until = max(s.until, d.Until)
	for row := range sketchRows {
		c := s.cell(key, row)
		if c.Until <= now {
			*c = limits.Debt{} // it is repaid
		}
		c.Until, c.Permits = max(c.Until, d.Until), max(c.Permits, d.Permits)
	}
}

func (s *sketch) get(key uint64) limits.Debt {
	d := *s.cell(key, 0)
	for row := 1; row < sketchRows; row++ {
		c := s.cell(key, row)
		d.Until, d.Permits = min(d.Until, c.Until), min(d.Permits, c.Permits)
	}
	return d
}

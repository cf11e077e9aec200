package ratelimit

import "math/bits"

// A sketch keeps the times until which dropped keys still owe something: a
// count-min sketch (Cormode and Muthukrishnan, 2005) of times, where a cell holds
// the latest and a key is answered with the earliest of its cells. That is never
// before what was added for the key. A time that is past means nothing, so
// cells need no clearing.
type sketch struct {
	mask  uint64
	cells []int64
}

const sketchRows = 4

// newSketch is sized to the keys of a shard.
func newSketch(keys int) *sketch {
	width := 1 << bits.Len(uint(max(64, keys/sketchRows)-1))
	return &sketch{mask: uint64(width - 1), cells: make([]int64, sketchRows*width)}
}

// cell is the cell of a key in a row.
func (s *sketch) cell(key uint64, row int) *int64 {
	x := (key + uint64(row)) * 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return &s.cells[uint64(row)*(s.mask+1)+x>>32&s.mask]
}

func (s *sketch) add(key uint64, until int64) {
	for row := range sketchRows {
		c := s.cell(key, row)
		*c = max(*c, until)
	}
}

func (s *sketch) get(key uint64) int64 {
	until := *s.cell(key, 0)
	for row := 1; row < sketchRows; row++ {
		until = min(until, *s.cell(key, row))
	}
	return until
}

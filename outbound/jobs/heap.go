package jobs

import "time"

// A memoryHeap has jobs by their time, and by the order in which they came.
type memoryHeap []*memoryJob

// Len implements heap.Interface.
func (h *memoryHeap) Len() int { return len(*h) }

// Less implements heap.Interface.
func (h *memoryHeap) Less(i, j int) bool {
	a, b := (*h)[i], (*h)[j]
	if c := a.at.Compare(b.at); c != 0 {
		return c < 0
	}
	return a.seq < b.seq
}

// Swap implements heap.Interface.
func (h *memoryHeap) Swap(i, j int) {
	s := *h
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push implements heap.Interface.
func (h *memoryHeap) Push(x any) {
	j, _ := x.(*memoryJob)
	j.index = len(*h)
	*h = append(*h, j)
}

// Pop implements heap.Interface.
func (h *memoryHeap) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return j
}

// until returns the number of jobs that are due at a time.
func (h *memoryHeap) until(t time.Time) int {
	all := *h
	var count func(i int) int
	count = func(i int) int {
		if i >= len(all) || all[i].at.After(t) {
			return 0
		}
		return 1 + count(2*i+1) + count(2*i+2)
	}
	return count(0)
}

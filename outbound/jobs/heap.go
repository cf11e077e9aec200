package jobs

// A memoryHeap has jobs by their time, and by the order in which they came.
type memoryHeap []*memoryJob

// Len implements heap.Interface.
func (h memoryHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h memoryHeap) Less(i, j int) bool {
	if c := h[i].at.Compare(h[j].at); c != 0 {
		return c < 0
	}
	return h[i].seq < h[j].seq
}

// Swap implements heap.Interface.
func (h memoryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
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

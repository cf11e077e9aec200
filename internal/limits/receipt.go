package limits

// More is the part of a Receipt for less common cases.
type More struct {
	Before [MaxLimits]uint64 // of a reservation in memory: what a receipt would have been before it
	Kept   []Kept            // the counts of limits that were not in force
	Stands []Result          // of several joined limits, in Redis
}

// Standings returns how the key stands under each of several joined limits.
func (m *More) Standings() []Result { return m.Stands }

// Kept is a charge to the count of a limit that was not in force.
type Kept struct {
	Rule    ID
	Receipt uint64
	Cost    int64
}

// Keep adds a charge to a receipt.
func Keep(to *Receipt, k Kept) {
	more := MoreOf(to)
	more.Kept = append(more.Kept, k)
}

// MoreOf returns the More of a receipt, and adds it.
func MoreOf(of *Receipt) *More {
	more, _ := of.More.(*More)
	if more == nil {
		more = new(More)
		of.More = more
	}
	return more
}

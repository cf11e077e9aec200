package limits

import "github.com/gresil/gresil/core/ratelimit/driver"

// More is the part of a Receipt for less common cases.
type More struct {
	Before [MaxLimits]uint64 // of a reservation in memory: the words that there were
	Kept   []Kept            // the counts of limits that were not in force
}

// Kept is a charge to the count of a limit that was not in force.
type Kept struct {
	Rule    driver.ID
	Receipt uint64
	Cost    int64
}

// Keep adds a charge to a receipt.
func Keep(to *driver.Receipt, k Kept) {
	more, _ := to.More.(*More)
	if more == nil {
		more = new(More)
		to.More = more
	}
	more.Kept = append(more.Kept, k)
}

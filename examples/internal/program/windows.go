package program

// MostSliding returns the number of the times, which are sorted, in the fullest window. A window is
// half-open.
func MostSliding(at []int64, window int64) (most int) {
	first := 0
	for i, t := range at {
		for t-at[first] >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

const phases = 20 // at which the windows of the clock can begin

// MostFixed returns the same for the windows of the clock, which can begin at 20 phases.
func MostFixed(at []int64, window int64) (most int) {
	for phase := range int64(phases) {
		var current int64
		n := 0
		for _, t := range at {
			if w := (t - phase*window/phases) / window; w != current {
				current, n = w, 0
			}
			n++
			most = max(most, n)
		}
	}
	return most
}

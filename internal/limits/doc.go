// Package limits is the arithmetic of rate limits: one formula for each algorithm, over a state, a
// time and a cost. The stores of this module decide with it. It has no clock, no lock on a key, and
// no storage.
package limits

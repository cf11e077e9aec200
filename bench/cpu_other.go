//go:build !unix

package bench

import "time"

var start = time.Now()

// usage is the time that has passed: nothing better is at hand.
func usage() (cpu time.Duration, aside int64) { return time.Since(start), 0 }

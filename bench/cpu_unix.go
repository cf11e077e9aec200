//go:build unix

package bench

import (
	"syscall"
	"time"
)

// usage is the processor time that this process has used, and how often a thread of it
// was put aside for another process.
func usage() (cpu time.Duration, aside int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nivcsw
}

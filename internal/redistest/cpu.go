//go:build unix

package redistest

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// CPU returns the CPU time that a server has used, from its reply to INFO cpu.
func CPU(tb testing.TB, info string) time.Duration {
	tb.Helper()
	var sum float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				tb.Fatal(err)
			}
			sum += seconds
		}
	}
	if sum == 0 {
		tb.Fatalf("INFO cpu = %q: no time", info)
	}
	return time.Duration(sum * 1e9)
}

// OwnCPU returns the CPU time that this process has used.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

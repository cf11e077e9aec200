//go:build unix

package redistest

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gresil/gresil/internal/redisserver"
)

// CPU returns the CPU time that the server of an address has used.
func CPU(tb testing.TB, addr string) time.Duration {
	tb.Helper()
	info, err := (&redisserver.Server{Addr: addr}).Do("info", "cpu")
	if err != nil {
		tb.Fatal(err)
	}
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
	return time.Duration(sum * 1e9)
}

// OwnCPU returns the CPU time that this process has used.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

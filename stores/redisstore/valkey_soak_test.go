//go:build soak

package redisstore

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/redisserver"
)

// TestSoakValkeyConforms runs the conformance suite over Valkey: the program that GRESIL_VALKEY names, or
// valkey-server on the PATH. Without one it says so, and passes.
func TestSoakValkeyConforms(t *testing.T) {
	program := os.Getenv("GRESIL_VALKEY")
	if program == "" {
		found, err := exec.LookPath("valkey-server")
		if err != nil {
			t.Log("valkey-server is not on the PATH, and GRESIL_VALKEY names none: Valkey was NOT tested")
			return
		}
		program = found
	}
	for _, mode := range []Mode{Strict, Coalesced} {
		t.Run(string(mode), func(t *testing.T) {
			s, err := redisserver.StartProgram(program, t.TempDir())
			require.NoError(t, err)
			t.Cleanup(s.Kill)
			version, err := s.Do("info", "server")
			require.NoError(t, err)
			require.Contains(t, version, "valkey_version:", "%s is no Valkey", program)
			t.Log("the suite runs over", program)
			conformsOn(t, server{s}, Config{Mode: mode}, inWrappers)
		})
	}
}

package demo

import (
	"bytes"
	"errors"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string // the error
	}{
		"good":         {[]string{"-redis", "h:1", "-vendor", "http://h/x", "-algorithm", "naive", "-json"}, ""},
		"an algorithm": {[]string{"-algorithm", "magic"}, `invalid value "magic" for flag -algorithm: must be gresil, naive`},
		"a fraction":   {[]string{"-n", "1.5"}, `invalid value "1.5" for flag -n: must be a whole number, 0 to 9`},
		"null":         {[]string{"-n", "null"}, `invalid value "null" for flag -n: must be a whole number, 0 to 9`},
		"too many":     {[]string{"-n", "10"}, `invalid value "10" for flag -n: must be a whole number, 0 to 9`},
		"no number":    {[]string{"-x", "NaN"}, `invalid value "NaN" for flag -x: must be a number, 0.5 to 2`},
		"too large":    {[]string{"-x", "Inf"}, `invalid value "Inf" for flag -x: must be a number, 0.5 to 2`},
		"an argument":  {[]string{"-n", "1", "extra"}, `test: unexpected argument "extra": there are only flags`},
		"a default":    {[]string{"-m", "1"}, "  -n number\n    \tnumber of calls (default 7)\n"},
		"a check":      {[]string{"-n", "8"}, "test: no 8, please"},
	} {
		var f Flags
		n, x := 7, 1.
		flags := flag.NewFlagSet("test", flag.ContinueOnError)
		f.Define(flags, true)
		Number(flags, &n, "n", 0, 9, "`number` of calls")
		Number(flags, &x, "x", 0.5, 2, "")
		var stderr bytes.Buffer
		code, ok := Parse(flags, c.args, &stderr, func() error {
			if n == 8 {
				return errors.New("no 8, please")
			}
			return nil
		})
		require.Equal(t, c.want == "", ok, name)
		if !ok {
			require.Equal(t, 2, code)
			require.Contains(t, stderr.String(), c.want, name)
			continue
		}
		require.Equal(t, Flags{Redis: "h:1", Vendor: "http://h/x", Algorithm: "naive", JSON: true}, f)
	}
}

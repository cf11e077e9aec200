package demo

import (
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string // the error
	}{
		"good":         {[]string{"-redis", "h:1", "-vendor", "http://h/x/", "-algorithm", "naive", "-json"}, ""},
		"no port":      {[]string{"-redis", "localhost:"}, `invalid value "localhost:" for flag -redis: must be HOST:PORT, such as 127.0.0.1:6379`},
		"no scheme":    {[]string{"-vendor", "h:80"}, `invalid value "h:80" for flag -vendor: must be a URL without a query, such as http://127.0.0.1:8090`},
		"a query":      {[]string{"-vendor", "http://h/?q=1"}, `invalid value "http://h/?q=1" for flag -vendor: must be a URL without a query`},
		"an algorithm": {[]string{"-algorithm", "magic"}, `invalid value "magic" for flag -algorithm: must be gresil, naive`},
		"a fraction":   {[]string{"-n", "1.5"}, `invalid value "1.5" for flag -n: must be a whole number, 1 to 9`},
		"too many":     {[]string{"-n", "10"}, `invalid value "10" for flag -n: must be a whole number, 1 to 9`},
		"no number":    {[]string{"-x", "NaN"}, `invalid value "NaN" for flag -x: must be a number, 0.5 to 2`},
		"too large":    {[]string{"-x", "Inf"}, `invalid value "Inf" for flag -x: must be a number, 0.5 to 2`},
		"an argument":  {[]string{"-n", "1", "extra"}, `unexpected argument "extra": there are only flags, such as -n 1`},
	} {
		var f Flags
		var n int
		var x float64
		flags := flag.NewFlagSet("test", flag.ContinueOnError)
		f.Define(flags, "a Redis")
		flags.Func("n", "", Whole(&n, 1, 9))
		flags.Func("x", "", Number(&x, 0.5, 2))
		err := Parse(flags, c.args, io.Discard, "-n 1", nil)
		if c.want != "" {
			require.ErrorContains(t, err, c.want, name)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, Flags{Redis: "h:1", Vendor: "http://h/x", Algorithm: "naive", JSON: true, Alone: true}, f)
	}
}

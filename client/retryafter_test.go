package client_test

import (
	"math"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
)

func response(lines ...string) *http.Response {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": lines}}
}

func TestRetryAfterForms(t *testing.T) {
	t.Parallel()
	now := time.Date(1994, time.November, 6, 8, 49, 7, 0, time.UTC) // 30 s before the date of RFC 9110
	const none = -1
	for value, want := range map[string]time.Duration{
		"120":                            2 * time.Minute,
		"0":                              0,
		"007":                            7 * time.Second,
		" \t5 ":                          5 * time.Second,
		"Sun, 06 Nov 1994 08:49:37 GMT":  30 * time.Second,
		"Sunday, 06-Nov-94 08:49:37 GMT": 30 * time.Second,
		"Sun Nov  6 08:49:37 1994":       30 * time.Second,
		"Sun, 06 Nov 1994 08:49:07 GMT":  0,
		"Fri, 31 Dec 1993 23:59:59 GMT":  0, // past
		"99999999999":                    math.MaxInt64,
		"9223372036":                     9223372036 * time.Second,
		"9223372037":                     math.MaxInt64,
		"9223372036854775807":            math.MaxInt64,
		"18446744073709551616":           math.MaxInt64,
		"18446744073709551617":           math.MaxInt64,
		strings.Repeat("9", 1000):        math.MaxInt64,
		strings.Repeat("0", 1000) + "1":  time.Second,
		"Sun, 06 Nov 9994 08:49:37 GMT":  math.MaxInt64,
		"":                               none,
		" ":                              none,
		"-5":                             none,
		"+5":                             none,
		"1.5":                            none,
		"1e3":                            none,
		"0x10":                           none,
		"soon":                           none,
		"5, 10":                          none,
		"Sun, 06 Nov 1994 08:49:37":      none,
		"١٢٠":                            none,
	} {
		got, ok := client.RetryAfter(response(value), now)
		require.Equal(t, want != none, ok, "%q", value)
		require.Equal(t, max(0, want), got, "%q", value)
	}
	_, ok := client.RetryAfter(nil, now)
	require.False(t, ok)
	_, ok = client.RetryAfter(&http.Response{}, now)
	require.False(t, ok)
}

func TestRetryAfterDateIsRelativeToTheServersOwn(t *testing.T) {
	t.Parallel()
	resp := response("Sun, 06 Nov 1994 08:49:37 GMT")
	resp.Header.Set("Date", "Sun, 06 Nov 1994 08:49:00 GMT")
	wrong := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	got, ok := client.RetryAfter(resp, wrong)
	require.True(t, ok)
	require.Equal(t, 37*time.Second, got)

	resp.Header.Set("Date", "yesterday")
	got, ok = client.RetryAfter(resp, wrong.AddDate(-40, 0, 0))
	require.True(t, ok)
	require.Greater(t, got, 24*time.Hour, "a Date that cannot be read is none")
}

func TestRetryAfterOfSeveralLinesIsTheLongest(t *testing.T) {
	t.Parallel()
	got, ok := client.RetryAfter(response("5", "garbage", "30", "-1", "7"), time.Now())
	require.True(t, ok)
	require.Equal(t, 30*time.Second, got)
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{
		"120", "-1", "1.5", "99999999999999999999", "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994", "", " 3\t", "5,6", "\x00",
	} {
		f.Add(s, "Sun, 06 Nov 1994 08:49:37 GMT", int64(784111777))
		f.Add(s, "", int64(0))
	}
	digits := regexp.MustCompile(`^[0-9]+$`)
	f.Fuzz(func(t *testing.T, value, date string, unix int64) {
		resp := response(value)
		resp.Header.Set("Date", date)
		now := time.Unix(unix, 0)
		got, ok := client.RetryAfter(resp, now)
		if got < 0 || !ok && got != 0 {
			t.Fatalf("RetryAfter(%q) = %v, %v", value, got, ok)
		}
		trimmed := strings.Trim(value, " \t\r\n")
		if !digits.MatchString(trimmed) {
			_, err := http.ParseTime(trimmed)
			if ok != (err == nil) {
				t.Fatalf("RetryAfter(%q) = %v, %v; as a date it has the error %v", value, got, ok, err)
			}
			return
		}
		n, _ := new(big.Int).SetString(trimmed, 10)
		n.Mul(n, big.NewInt(int64(time.Second)))
		want := time.Duration(math.MaxInt64)
		if n.IsInt64() {
			want = time.Duration(n.Int64())
		}
		if !ok || got != want {
			t.Fatalf("RetryAfter(%q) = %v, %v; want %v", value, got, ok, want)
		}
	})
}

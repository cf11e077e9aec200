package client_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
)

// saying returns a response with some fields, each a line "name: value".
func saying(status int, fields ...string) *http.Response {
	h := http.Header{}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		h.Add(name, value)
	}
	return &http.Response{StatusCode: status, Header: h}
}

// said checks a table, whose times are relative to the begin of a bubble: midnight of 2000-01-01.
func said(t *testing.T, rows map[string]saidRow) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range rows {
			got, ok := client.RetryAfter(saying(c.status, c.fields...))
			require.Equal(t, c.want, got, "%s: %q", name, c.fields)
			require.Equal(t, c.want > 0, ok, "%s: %q", name, c.fields)
		}
	})
}

type saidRow struct {
	status int
	fields []string
	want   time.Duration
}

const firstOf2000 = 946684800

func TestRetryAfterField(t *testing.T) {
	rows := map[string]saidRow{
		"no field":              {429, nil, 0},
		"403":                   {403, []string{"Retry-After: 60"}, time.Minute},
		"400":                   {400, []string{"Retry-After: 60"}, time.Minute},
		"529":                   {529, []string{"Retry-After: 60"}, time.Minute},
		"success":               {200, []string{"Retry-After: 60"}, 0},
		"accepted":              {202, []string{"Retry-After-Ms: 60"}, 0},
		"redirect":              {301, []string{"Retry-After: 60"}, 0},
		"longest line":          {503, []string{"Retry-After: 5", "Retry-After: soon", "Retry-After: 30", "Retry-After: -1", "Retry-After: 7"}, 30 * time.Second},
		"ms first":              {429, []string{"retry-after-ms: 1500", "Retry-After: 2"}, 1500 * time.Millisecond},
		"ms alone":              {429, []string{"retry-after-ms: 0.0000015"}, 2 * time.Nanosecond},
		"ms of 0":               {429, []string{"retry-after-ms: 0", "Retry-After: 5"}, 5 * time.Second},
		"ms unreadable":         {429, []string{"retry-after-ms: NaN", "Retry-After: 5"}, 5 * time.Second},
		"ms huge":               {429, []string{"retry-after-ms: 9223372036855"}, math.MaxInt64},
		"ms longest":            {429, []string{"retry-after-ms: 9223372036854.775807"}, math.MaxInt64},
		"clock ahead":           {503, []string{"Date: Sun, 06 Nov 1994 08:49:00 GMT", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"}, 38 * time.Second},
		"clock behind":          {503, []string{"Date: Sun, 06 Nov 2033 08:49:00 GMT", "Retry-After: Sun, 06 Nov 2033 08:49:37 GMT"}, 38 * time.Second},
		"Date in UTC":           {503, []string{"Date: Sun, 06 Nov 1994 08:49:00 UTC", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"}, 38 * time.Second},
		"Date unreadable":       {503, []string{"Date: yesterday", "Retry-After: Sat, 01 Jan 2000 00:00:30 GMT"}, 31 * time.Second},
		"this second":           {503, []string{"Date: Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"}, time.Second},
		"past":                  {503, []string{"Date: Sun, 06 Nov 1994 08:49:38 GMT", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"}, 0},
		"past, limit used up":   {503, []string{"Retry-After: Fri, 31 Dec 1999 23:59:00 GMT", `RateLimit: "a";r=0;t=9`}, 9 * time.Second},
		"seconds need no clock": {503, []string{"Date: Sun, 06 Nov 1994 08:49:38 GMT", "Retry-After: 7"}, 7 * time.Second},
		"before all others":     {429, []string{"Retry-After: 5", `RateLimit: "a";r=0;t=9`}, 5 * time.Second},
		"0, limit used up":      {429, []string{"Retry-After: 0", `RateLimit: "a";r=0;t=9`}, 9 * time.Second},
		"negative, used up":     {429, []string{"Retry-After: -5", `RateLimit: "a";r=0;t=9`}, 9 * time.Second},
		"with something left":   {403, []string{"Retry-After: 60", "X-RateLimit-Remaining: 4000", "X-RateLimit-Reset: 946688100"}, time.Minute},
	}
	for value, want := range map[string]time.Duration{
		"120":                              2 * time.Minute,
		"0":                                0,
		" \t5 ":                            5 * time.Second,
		"0.8":                              800 * time.Millisecond,
		"1.0000000001":                     time.Second + 1,
		"0.00000000000000000001":           1,
		".5":                               500 * time.Millisecond,
		"5.":                               5 * time.Second,
		"Sat, 01 Jan 2000 00:00:30 GMT":    31 * time.Second,
		"Saturday, 01-Jan-00 00:00:30 GMT": 31 * time.Second,
		"Sat Jan  1 00:00:30 2000":         31 * time.Second,
		"Sat, 01 Jan 2000 00:00:30 UTC":    31 * time.Second,
		"Sat, 01 Jan 2000 00:00:30 +0000":  31 * time.Second,
		"Sat, 01 Jan 2000 02:00:30 +0200":  31 * time.Second,
		"Sat, 01 Jan 2000 00:00:00 GMT":    time.Second,
		"Fri, 31 Dec 1999 23:59:59 GMT":    0,
		"99999999999":                      math.MaxInt64,
		"9223372036":                       9223372036 * time.Second,
		"9223372036.854775807":             math.MaxInt64,
		"9223372036854775807":              math.MaxInt64,
		strings.Repeat("9", 1000):          math.MaxInt64,
		strings.Repeat("0", 1000) + "1":    time.Second,
		"Sun, 06 Nov 9994 08:49:37 GMT":    math.MaxInt64,
		"":                                 0,
		"-5":                               0,
		"1e3":                              0,
		"NaN":                              0,
		"soon":                             0,
		"Sun, 06 Nov 2033 08:49:37":        0,
		"Saturday, 01-Jan-00 00:00:30 PST": 0,
		"Sun, 06 Nov 2033 08:49:37 PST":    0,
		"١٢٠":                              0,
	} {
		rows[value] = saidRow{http.StatusServiceUnavailable, []string{"Retry-After: " + value}, want}
	}
	said(t, rows)
	_, ok := client.RetryAfter(nil)
	require.False(t, ok)
	_, ok = client.RetryAfter(&http.Response{StatusCode: http.StatusTooManyRequests})
	require.False(t, ok)
}

// In London and Dublin, package time reads GMT as the zone of there, which has another name in summer.
func TestRetryAfterWhereGMTIsLocal(t *testing.T) { //nolint:paralleltest // it changes the zone of the program
	old := time.Local
	defer func() { time.Local = old }()
	for _, zone := range []string{"Europe/London", "Europe/Dublin", "America/New_York"} {
		time.Local = core.Must(time.LoadLocation(zone))
		for value, want := range map[string]time.Duration{
			"Wed, 01 Jul 2026 12:00:30 GMT":     31 * time.Second,
			"Wednesday, 01-Jul-26 12:00:30 GMT": 31 * time.Second,
			"Wednesday, 01-Jul-26 12:00:30 UTC": 31 * time.Second,
			"Wed Jul  1 12:00:30 2026":          31 * time.Second,
			"Wednesday, 01-Jul-26 13:00:30 BST": 0,
		} {
			got, _ := client.RetryAfter(saying(429, "Retry-After: "+value, "Date: Wednesday, 01-Jul-26 12:00:00 GMT"))
			require.Equal(t, want, got, "%s in %s", value, zone)
		}
	}
}

func TestRetryAfterOfUsedUpLimit(t *testing.T) {
	const dated = "Date: Thu, 01 Jan 2026 00:00:00 GMT" // 1767225600
	unix := func(after time.Duration) string { return strconv.FormatInt(firstOf2000+int64(after/time.Second), 10) }
	said(t, map[string]saidRow{
		"draft 10":                 {200, []string{`RateLimit: "default";r=0;t=50`}, 50 * time.Second},
		"draft 10, left":           {200, []string{`RateLimit: "default";r=1;t=50`}, 0},
		"longest of those used up": {429, []string{`RateLimit: "burst";r=0;t=5, "hour";r=0;t=70, "daily";r=812;t=36000`}, 70 * time.Second},
		"several lines":            {429, []string{`RateLimit: "burst";r=0;t=5`, `RateLimit: "hour";r=0;t=70`}, 70 * time.Second},
		"a partition":              {200, []string{`RateLimit: "peruser";r=0;t=10;pk=:dXNlci0xMjM=:`}, 10 * time.Second},
		"unknown parameters":       {200, []string{`RateLimit: "a";x="\"; r=1\\";r=0;b;y=?0;z=1.25;acme-u=tok/en:*;d=@-1;t=10`}, 10 * time.Second},
		"a token for a name":       {200, []string{`RateLimit: default;r=0;t=10`}, 10 * time.Second},
		"of a concurrency limit":   {200, []string{`RateLimit: "inflight";r=0`}, 0},
		"last of duplicates":       {200, []string{`RateLimit: "a";r=1;t=9;r=0;t=8`}, 8 * time.Second},
		"blanks":                   {200, []string{"RateLimit:   \"a\";  r=0; t=8 \t,\t\"b\";r=0;t=9\t"}, 9 * time.Second},
		"a decimal":                {200, []string{`RateLimit: "a";r=0.0;t=9.5`}, 9500 * time.Millisecond},
		"a decimal left":           {200, []string{`RateLimit: "a";r=0.5;t=9, "b";r=0;t=3`}, 3 * time.Second},
		"strings":                  {200, []string{`RateLimit: "a";r="0";t="9", "b";r=0;t=3`}, 3 * time.Second},
		"negative":                 {200, []string{`RateLimit: "a";r=-1;t=9, "b";r=0;t=-3`}, 0},
		"a century":                {200, []string{`RateLimit: "a";r=0;t=3153600000`}, 876000 * time.Hour},
		"15 digits":                {200, []string{`RateLimit: "a";r=0;t=999999999999999`}, math.MaxInt64},
		"16 digits":                {200, []string{`RateLimit: "a";r=0;t=9999999999999999, "b";r=0;t=3`}, 0},
		"a string without an end":  {200, []string{`RateLimit: "a";r=0;t=9, "b`}, 0},
		"an inner list":            {200, []string{`RateLimit: ("a");r=0;t=9`}, 0},
		"out of a cache":           {200, []string{`RateLimit: "a";r=0;t=9`, "Age: 3"}, 0},
		"not out of a cache":       {200, []string{`RateLimit: "a";r=0;t=9`, "Age: 0"}, 9 * time.Second},

		"draft 07":                     {200, []string{"RateLimit: limit=10, remaining=0, reset=7"}, 7 * time.Second},
		"draft 07 in another order":    {200, []string{"RateLimit: reset=7,remaining=0;x=1"}, 7 * time.Second},
		"draft 07, left":               {200, []string{"RateLimit: limit=10, remaining=1, reset=7"}, 0},
		"draft 07, no reset":           {200, []string{"RateLimit: limit=10, remaining=0"}, 0},
		"draft 07, last of duplicates": {200, []string{"RateLimit: remaining=0, reset=7", "RateLimit: remaining=0, reset=4"}, 4 * time.Second},
		"draft 03":                     {200, []string{"RateLimit-Limit: 100, 100;w=60", "RateLimit-Remaining: 0", "RateLimit-Reset: 50"}, 50 * time.Second},
		"draft 03, left":               {429, []string{"RateLimit-Remaining: 2", "RateLimit-Reset: 50"}, 0},
		"later draft":                  {200, []string{`RateLimit: "a";r=0;t=5`, "RateLimit-Remaining: 0", "RateLimit-Reset: 50", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, 5 * time.Second},
		"later draft, left":            {200, []string{`RateLimit: "a";r=3;t=5`, "RateLimit-Remaining: 0", "RateLimit-Reset: 50", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, 50 * time.Second},
		"later draft, malformed":       {200, []string{`RateLimit: "a`, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, time.Minute},

		"seconds left":           {429, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, time.Minute},
		"Unix time":              {403, []string{dated, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225660"}, time.Minute},
		"Unix time, decimals":    {429, []string{dated, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225660.0000000001"}, time.Minute + 1},
		"milliseconds":           {200, []string{dated, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225660007"}, time.Minute + 7*time.Millisecond},
		"clock 2 minutes behind": {429, []string{"Date: Thu, 01 Jan 2026 00:02:00 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225900"}, 3 * time.Minute},
		"seconds need no clock":  {200, []string{dated, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, time.Minute},
		"shortest milliseconds":  {200, []string{"Date: Sun, 09 Sep 2001 01:46:39 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1000000000000"}, time.Second},
		"no Date":                {200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225660"}, 1767225660*time.Second - firstOf2000*time.Second},
		"no reset":               {200, []string{"X-RateLimit-Remaining: 0"}, 0},
		"no remaining":           {200, []string{"X-RateLimit-Reset: " + unix(time.Minute)}, 0},
		"of two servers":         {200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 3", "X-RateLimit-Remaining: 7", "X-RateLimit-Reset: 60"}, 3 * time.Second},
		"one line too few":       {200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 3", "X-RateLimit-Reset: 60"}, 0},
	})
}

package ratelimit_test

import (
	"math"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gresil/gresil/plugins/ratelimit"
)

// The grammar of RFC 9651, written down once more: as expressions.
const (
	sfKey    = `[a-z*][a-z0-9_.*-]*`
	sfInt    = `-?[0-9]{1,15}`
	sfToken  = "[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*"
	sfItem   = `(?:-?[0-9]{1,12}\.[0-9]{1,3}|` + sfInt + `|"(?:[ !#-\[\]-~]|\\["\\])*"|:[A-Za-z0-9+/=]*:|\?[01]|@` + sfInt + `|` + sfToken + `)`
	sfParams = `(?:; *` + sfKey + `(?:=` + sfItem + `)?)*`
	sfMember = sfItem + sfParams
	sfEntry  = sfKey + `=` + sfMember
	sfComma  = `[ \t]*,[ \t]*`
)

var (
	sfList       = regexp.MustCompile(`^ *` + sfMember + `(?:` + sfComma + sfMember + `)*[ \t]*$`)
	sfDictionary = regexp.MustCompile(`^ *` + sfEntry + `(?:` + sfComma + sfEntry + `)*[ \t]*$`)
	sfFirst      = regexp.MustCompile(`^[ \t,]*(?:(` + sfKey + `)=)?(` + sfItem + `)(` + sfParams + `)`)
	sfParam      = regexp.MustCompile(`^; *(` + sfKey + `)(?:=(` + sfItem + `))?`)
	sfWhole      = regexp.MustCompile(`^` + sfInt + `$`)
)

func whole(s string) int64 {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && sfWhole.MatchString(s) && n >= 0 {
		return n
	}
	return -1
}

// askedByGrammar is what a RateLimit field asks for, by the expressions.
func askedByGrammar(field string) time.Duration {
	dictionary := sfDictionary.MatchString(field)
	if !dictionary && !sfList.MatchString(field) {
		return 0
	}
	most := int64(0)
	remaining, reset := int64(-1), int64(-1)
	for {
		m := sfFirst.FindStringSubmatch(field)
		if m == nil {
			break
		}
		field = field[len(m[0]):]
		switch {
		case m[1] == "remaining":
			remaining = whole(m[2])
		case m[1] == "reset":
			reset = whole(m[2])
		case !dictionary:
			left, wait := int64(-1), int64(-1)
			for rest := m[3]; rest != ""; {
				p := sfParam.FindStringSubmatch(rest)
				rest = rest[len(p[0]):]
				switch p[1] {
				case "r":
					left = whole(p[2])
				case "t":
					wait = whole(p[2])
				}
			}
			if left == 0 {
				most = max(most, wait)
			}
		}
	}
	if dictionary && remaining == 0 {
		most = max(0, reset)
	}
	return time.Duration(min(most, math.MaxInt64/int64(time.Second))) * time.Second
}

// The parser of RateLimit agrees with the grammar.
func FuzzAskedRateLimit(f *testing.F) {
	for _, s := range []string{
		`"default";r=0;t=50`, `"burst";r=0;t=5, "daily";r=812;t=36000`, `"u";r=0;t=10;pk=:dXNlci0xMjM=:`, `"a\"b\\";r=0;t=1`, `a;r=0;t=1;b;c=?1;d=@5;e=-1.5`,
		"limit=10, remaining=0, reset=7", "remaining=0,reset=7;x=1", `"a";r=0;t=9,`, `"a";r=0;t=9999999999999999`, `r=0;t=9`, `"a" ; r=0`, " \"a\";  r=0;t=3 \t, b", "*;*=*;r=0;t=4", "A;r=0;t=2", "1;r=0;t=2", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Ratelimit": {field}}}
		if got, want := ratelimit.DefaultFeedback(resp, time.Now()), askedByGrammar(field); got != want {
			t.Fatalf("RateLimit: %q: %v, want %v", field, got, want)
		}
	})
}

// Numbers of any size, with and without a Date, are what they are in exact arithmetic.
func FuzzAskedXRateLimit(f *testing.F) {
	for _, reset := range []string{"0", "60", "999999999", "1000000000", "1767225660", "1767225660123", "1767225660123456", "1767225660123456789", "99999999999", "100000000000", "9223372036854775807", "9223372036854775808", "-1", "+1", "1.5", "1e3", " 7", ""} {
		f.Add("0", reset, "Thu, 01 Jan 2026 00:00:00 GMT", int64(firstOf2026), false)
		f.Add("0", reset, "", int64(firstOf2026), true)
		f.Add("1", reset, "yesterday", int64(0), true)
	}
	digits := regexp.MustCompile(`^[ \t\r\n]*([0-9]+)[ \t\r\n]*$`)
	f.Fuzz(func(t *testing.T, remaining, reset, date string, unix int64, draft bool) {
		unix %= 1 << 40
		now := time.Unix(unix, 0)
		prefix := "X-Ratelimit-"
		if draft {
			prefix = "Ratelimit-"
		}
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{prefix + "Remaining": {remaining}, prefix + "Reset": {reset}, "Date": {date}}}
		got := ratelimit.DefaultFeedback(resp, now)

		want := big.NewInt(0)
		left, at := digits.FindStringSubmatch(remaining), digits.FindStringSubmatch(reset)
		if left != nil && at != nil && strings.Trim(left[1], "0") == "" {
			n, _ := new(big.Int).SetString(at[1], 10)
			second := big.NewInt(1e9)
			switch {
			case !n.IsInt64(): // no number of this world
			case n.Cmp(second) < 0:
				want.Mul(n, second)
			default:
				for limit := big.NewInt(1e11); n.Cmp(limit) >= 0; limit.Mul(limit, big.NewInt(1000)) {
					second.Div(second, big.NewInt(1000))
				}
				if d, err := http.ParseTime(date); err == nil {
					unix = d.Unix()
				}
				want.Mul(n, second)
				want.Sub(want, new(big.Int).Mul(big.NewInt(unix), big.NewInt(1e9)))
			}
		}
		switch {
		case want.Sign() < 0:
			want.SetInt64(0)
		case !want.IsInt64():
			want.SetInt64(math.MaxInt64)
		}
		if int64(got) != want.Int64() {
			t.Fatalf("%q %q, Date %q, now %d: %v, want %v", remaining, reset, date, unix, got, time.Duration(want.Int64()))
		}
	})
}

// Retry-After of a 429 is read before all others, and what is asked for is never
// negative, whatever is there.
func FuzzAsked(f *testing.F) {
	f.Add(429, "3", `"a";r=0;t=5`, "0", "7", "")
	f.Add(503, "Thu, 01 Jan 2026 00:00:09 GMT", "remaining=0, reset=5", "0", "1767225660", "Thu, 01 Jan 2026 00:00:00 GMT")
	f.Add(200, "", "", "", "", "0")
	f.Fuzz(func(t *testing.T, status int, retryAfter, field, remaining, reset, age string) {
		h := http.Header{"Retry-After": {retryAfter}, "Ratelimit": {field}, "X-Ratelimit-Remaining": {remaining, remaining}, "X-Ratelimit-Reset": {reset, reset}, "Age": {age}}
		got := ratelimit.DefaultFeedback(&http.Response{StatusCode: status, Header: h}, time.Unix(firstOf2026, 0))
		if got < 0 {
			t.Fatalf("%v: %v", h, got)
		}
		if n, err := strconv.ParseUint(retryAfter, 10, 32); err == nil && (status == 429 || status == 503) && got != time.Duration(n)*time.Second {
			t.Fatalf("%v: %v", h, got)
		}
	})
}

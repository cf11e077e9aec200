package ratelimit_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// An item is one of a list of structured fields: a string or an integer, with
// integers as parameters.
type item struct {
	text   string
	number int64
	params map[string]int64
}

var errField = errors.New("no structured field")

// parseItems reads a list as RFC 9651 has it, as far as it is used here.
func parseItems(lines []string) (items []item, err error) {
	s := strings.Trim(strings.Join(lines, ","), " ")
	for s != "" {
		var it item
		if s[0] == '"' {
			if it.text, s, err = parseString(s); err != nil {
				return nil, err
			}
		} else if it.number, s, err = parseInteger(s); err != nil {
			return nil, err
		}
		it.params = map[string]int64{}
		for strings.HasPrefix(s, ";") {
			name, value, ok := strings.Cut(strings.TrimLeft(s[1:], " "), "=")
			if !ok || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
				return nil, errField
			}
			if it.params[name], s, err = parseInteger(value); err != nil {
				return nil, err
			}
		}
		items = append(items, it)
		s = strings.TrimLeft(s, " ")
		if s == "" {
			break
		}
		if s[0] != ',' {
			return nil, errField
		}
		if s = strings.TrimLeft(s[1:], " "); s == "" {
			return nil, errField // a comma at the end
		}
	}
	return items, nil
}

func parseString(s string) (text, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", errField
			}
			b.WriteByte(s[i])
		case c < 0x20 || c > 0x7e:
			return "", "", errField
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errField
}

func parseInteger(s string) (n int64, rest string, err error) {
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && s[end] == '-') {
		end++
	}
	n, err = strconv.ParseInt(s[:end], 10, 64)
	if err != nil || len(strings.TrimPrefix(s[:end], "-")) > 15 {
		return 0, "", errField
	}
	return n, s[end:], nil
}

func TestTheParserOfHeaderTests(t *testing.T) {
	t.Parallel()
	items, err := parseItems([]string{`"sub"; r=87; t=120`, `"a\"b\\c";q=1`})
	require.NoError(t, err)
	require.Equal(t, []item{{"sub", 0, map[string]int64{"r": 87, "t": 120}}, {`a"b\c`, 0, map[string]int64{"q": 1}}}, items)
	for _, bad := range []string{`"d";R=5`, `"d";r=5,`, `"d";r=1000000000000000`, `"d`, `"\d"`, `"ü"`, `d;r=1`} {
		_, err := parseItems([]string{bad})
		require.Error(t, err, bad)
	}
}

// FuzzHeaders renders whatever a store may say and reads it again.
func FuzzHeaders(f *testing.F) {
	f.Add("api", "net", "/a", int64(100), int64(60e9), int64(10), int64(99), int64(50e9), int64(50e9), uint8(0), uint8(1), true)
	f.Add(`a"b\c`, "ü", "/café", int64(1), int64(1), int64(1<<62), int64(-1), int64(-1), int64(1<<63-1), uint8(1), uint8(31), false)
	f.Add("", "x", "/{a}/b", int64(1<<38), int64(3600e9), int64(0), int64(1<<63-1), int64(1), int64(0), uint8(9), uint8(24), true)
	f.Fuzz(func(t *testing.T, name, layer, pattern string, permits, period, capacity, remaining, next, full int64, which, style uint8, allowed bool) {
		result := coreratelimit.Result{
			Allowed: allowed, Limit: capacity, Remaining: remaining, NextAfter: time.Duration(next), FullAfter: time.Duration(full), RetryAfter: time.Duration(next), Which: int(which) - 1,
		}
		limit := ratelimit.FixedWindow(permits, time.Duration(period))
		cfg := ratelimit.ServerConfig{
			Name: name, Store: wild{result}, Headers: ratelimit.HeaderStyle(style), Limit: limit.And(ratelimit.TokenBucket(5, time.Hour, 7)),
			Layers: []ratelimit.Layer{{Name: layer}}, Routes: []ratelimit.Route{{Pattern: pattern, Limit: limit}},
		}
		s, err := ratelimit.NewServer(cfg)
		if err != nil {
			return // that is for the tests of Validate
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		for _, target := range []string{"/", "/a/b", "/caf%C3%A9"} {
			h := fetch(s.Handler(http.HandlerFunc(quick)), target).Header()
			if capacity <= 0 {
				require.Empty(t, h["Ratelimit"])
				continue
			}
			told := func(n int64) int64 { return min(max(n, 0), 999_999_999_999_999) }
			for field, values := range h {
				if field != "X-Rate-Limited" && !strings.Contains(field, "Ratelimit") {
					continue
				}
				require.Len(t, values, 1, field)
				require.NotContains(t, values[0], "\n")
			}
			for _, field := range []string{"Ratelimit-Limit", "X-Ratelimit-Limit", "Ratelimit-Remaining", "X-Ratelimit-Remaining"} {
				if len(h[field]) > 0 {
					want := told(capacity)
					if strings.HasSuffix(field, "Remaining") {
						want = told(remaining)
					}
					require.Equal(t, strconv.FormatInt(want, 10), h[field][0], field)
				}
			}
			policies, err := parseItems(h["Ratelimit-Policy"])
			require.NoError(t, err, h)
			for _, p := range policies {
				require.NotContains(t, p.params, "t")
				if w, ok := p.params["w"]; ok {
					require.Positive(t, w)
				}
			}
			switch {
			case ratelimit.HeaderStyle(style)&ratelimit.HeaderDraft10 != 0:
				items, err := parseItems(h["Ratelimit"])
				require.NoError(t, err, h)
				require.Len(t, items, 2, h)
				names := map[string]bool{}
				for _, p := range policies {
					require.False(t, names[p.text], "%q twice", p.text)
					names[p.text] = true
					require.Contains(t, p.params, "q")
				}
				for _, it := range items {
					require.True(t, names[it.text], "%q has no policy in %q", it.text, h)
					require.Equal(t, told(remaining), it.params["r"])
					_, known := it.params["t"]
					require.Equal(t, next > 0, known)
				}
				require.Equal(t, layer, items[1].text)
			}
		}
	})
}

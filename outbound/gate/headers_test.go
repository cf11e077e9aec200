package gate_test

import (
	"errors"
	"io"
	"math"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/gate"
)

// at is the time at which the vendors of these tests answer, far from the clock of this machine.
const at = "Wed, 25 Nov 2026 12:00:00 GMT"

func answer(status int, lines ...string) *http.Response {
	h := http.Header{"Date": {at}}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Date" {
			h.Del(name)
		}
		h.Add(name, value)
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for format, rows := range map[gate.Format]map[string]int64{ // what remains, or -1 if the text says nothing
		gate.Remaining: {
			"99": 99, "99.0": 99, " 7 ": 7, "0": 0, "0.0": 0, "0.9": 0, "-1": -1, "-0.5": -1, "": -1, "x": -1, "1e3": -1, "NaN": -1, "+1": -1,
			"9223372036854775807": math.MaxInt64, "99999999999999999999": math.MaxInt64,
		},
		gate.UsedOf: {
			"32/40": 8, "40/40": 0, "41/40": 0, "31.5/40": 8, "32 / 40": 8, "0/1": 1, "1/0": -1, "x/40": -1, "32/x": -1, "32": -1, "": -1, "-1/40": -1,
			"0/99999999999999999999": math.MaxInt64, "99999999999999999999.5/1": 0,
		},
		"another": {"1": -1},
	} {
		for text, want := range rows {
			s := gate.Headers(gate.Header{Name: "x", Format: format}, gate.Header{Name: "reset", Format: gate.ResetIn})(answer(200, "X: "+text, "Reset: 1"), nil)
			if want < 0 {
				require.Empty(t, s.Quotas, "%s %q", format, text)
				continue
			}
			require.Equal(t, gate.Signal{Quotas: []gate.Quota{{Remaining: want, Reset: time.Second}}}, s, "%s %q", format, text)
		}
	}
	const ms = time.Millisecond
	for format, rows := range map[gate.Format]map[string]time.Duration{
		gate.ResetIn: {
			"41": 41 * time.Second, "1.5": 1500 * ms, "0.8": 800 * ms, " 2 ": 2 * time.Second, "0": 0, "-5": 0, "": 0, "NaN": 0, "Inf": 0, "1e3": 0, "6m0s": 0,
			"9223372036": 9223372036 * time.Second, "9223372037": 0, "99999999999999999999": 0, "0.0000000001": 1,
		},
		gate.ResetInMillis: {"1500": 1500 * ms, "1.5": 1500 * time.Microsecond, "0": 0, "-1": 0, "9223372036855": 0},
		gate.ResetDuration: {
			"6m0s": 6 * time.Minute, "12ms": 12 * ms, "1m30.5s": 90500 * ms, "57.238747106s": 57238747106, "1.2034567891s": 1203456790, "41": 41 * time.Second,
			"30s": 30 * time.Second, "-70ms": 0, "1d2h": 0, "": 0, "s": 0, "0": 0, "9999999999h": 0, "9223372037s": 0,
		},
		gate.ResetAt: {
			"1795608300": 5 * time.Minute, "1795608300.5": 300500 * ms, "1795608000": 0, "1795607999": 0, "0": 0, "-1": 0, "": 0, "x": 0,
			"1795608300000": 0, "99999999999999999999": 0,
		},
		gate.ResetAtMillis: {"1795608300000": 5 * time.Minute, "1795608300000.5": 300*time.Second + 500*time.Microsecond, "1795608000000": 0, "1795608300": 0},
		gate.ResetTime: {
			"2026-11-25T12:00:30Z": 30 * time.Second, "2026-11-25T12:00:30.5Z": 30500 * ms, "2026-11-25T12:05Z": 5 * time.Minute, "2026-11-25T13:05+01:00": 5 * time.Minute,
			"2026-11-25T12:00:30+0000": 30 * time.Second, "2026-11-25T12:05+0000": 5 * time.Minute, "Wed, 25 Nov 2026 12:00:30 GMT": 30 * time.Second,
			"Wed, 25 Nov 2026 12:00:30 UTC": 30 * time.Second, "Wed, 25 Nov 2026 12:00:30 +0000": 30 * time.Second, "Wednesday, 25-Nov-26 12:00:30 GMT": 30 * time.Second,
			"2026-11-25T11:59:59Z": 0, "2026-11-25T12:00:30": 0, "9999-12-31T23:59:59Z": 0, "1795608300": 0, "": 0, "2026-13-25T12:00:30Z": 0,
		},
		"another": {"1": 0},
	} {
		for text, want := range rows {
			read := gate.Headers(gate.Header{Name: "X", Format: format, Limit: "a"}, gate.Header{Name: "left", Format: gate.Remaining, Limit: "a"})
			s := read(answer(200, "X: "+text, "Left: 0"), nil)
			require.Equal(t, gate.Signal{Quotas: []gate.Quota{{Limit: "a", Reset: want}}}, s, "%s %q", format, text)
			if s := read(answer(200, "X: "+text, "Left: 0", "Date: Sun, 06 Nov 1960 08:49:37 GMT"), nil); want == 0 && !strings.ContainsAny(text, "0123456789") {
				require.Zero(t, s.Quotas[0].Reset, "%s %q", format, text)
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	openAI := []gate.Header{
		{Name: "x-ratelimit-remaining-requests", Format: gate.Remaining, Limit: "requests"},
		{Name: "x-ratelimit-reset-requests", Format: gate.ResetDuration, Limit: "requests"},
		{Name: "x-ratelimit-remaining-tokens", Format: gate.Remaining, Limit: "tokens"},
		{Name: "x-ratelimit-reset-tokens", Format: gate.ResetDuration, Limit: "tokens"},
	}
	github := []gate.Header{{Name: "X-RateLimit-Remaining", Format: gate.Remaining}, {Name: "X-RateLimit-Reset", Format: gate.ResetAt}}
	millis := []gate.Header{{Name: "X-RateLimit-Remaining", Format: gate.Remaining}, {Name: "X-RateLimit-Reset", Format: gate.ResetInMillis}}
	for name, row := range map[string]struct {
		table []gate.Header
		resp  *http.Response
		err   error
		want  gate.Signal
	}{
		"two limits": {
			openAI, answer(200, "X-Ratelimit-Remaining-Requests: 4999", "X-Ratelimit-Reset-Requests: 12ms", "X-Ratelimit-Remaining-Tokens: 0", "X-Ratelimit-Reset-Tokens: 6m0s"), nil,
			gate.Signal{Quotas: []gate.Quota{{Limit: "requests", Remaining: 4999, Reset: 12 * time.Millisecond}, {Limit: "tokens", Reset: 6 * time.Minute}}},
		},
		"one is not known": {
			openAI, answer(429, "X-Ratelimit-Remaining-Requests: -1", "X-Ratelimit-Reset-Requests: 1h", "X-Ratelimit-Remaining-Tokens: 0", "X-Ratelimit-Reset-Tokens: 41"), nil,
			gate.Signal{Limited: true, Pause: 41 * time.Second, Quotas: []gate.Quota{{Limit: "tokens", Reset: 41 * time.Second}}},
		},
		"longest of those used up": {
			openAI, answer(429, "X-Ratelimit-Remaining-Requests: 0", "X-Ratelimit-Reset-Requests: 2s", "X-Ratelimit-Remaining-Tokens: 0", "X-Ratelimit-Reset-Tokens: 1s"), nil,
			gate.Signal{Limited: true, Pause: 2 * time.Second, Quotas: []gate.Quota{{Limit: "requests", Reset: 2 * time.Second}, {Limit: "tokens", Reset: time.Second}}},
		},
		"Retry-After goes first": {
			github, answer(403, "Retry-After: 60", "X-Ratelimit-Remaining: 4000", "X-Ratelimit-Reset: 1795611300"), nil,
			gate.Signal{Limited: true, Pause: time.Minute, Quotas: []gate.Quota{{Remaining: 4000, Reset: 55 * time.Minute}}},
		},
		"Retry-After goes first, nothing remains": {
			github, answer(403, "Retry-After: 5", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1795608030"), nil,
			gate.Signal{Limited: true, Pause: 5 * time.Second, Quotas: []gate.Quota{{Reset: 30 * time.Second}}},
		},
		"something remains": {
			github, answer(429, "X-Ratelimit-Remaining: 4000", "X-Ratelimit-Reset: 1795611300"), nil,
			gate.Signal{Limited: true, Quotas: []gate.Quota{{Remaining: 4000, Reset: 55 * time.Minute}}},
		},
		"the unit is not guessed": {
			millis, answer(429, "X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1500"), nil,
			gate.Signal{Limited: true, Pause: 1500 * time.Millisecond, Quotas: []gate.Quota{{Reset: 1500 * time.Millisecond}}},
		},
		"the unit is guessed":     {openAI, answer(429, "X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 7"), nil, gate.Signal{Limited: true, Pause: 7 * time.Second}},
		"a reset alone":           {github, answer(429, "X-Ratelimit-Reset: 1795611300"), nil, gate.Signal{Limited: true}},
		"several lines":           {github, answer(200, "X-Ratelimit-Remaining: 3", "X-Ratelimit-Remaining: 5", "X-Ratelimit-Reset: 1795608030", "X-Ratelimit-Reset: 1795608010"), nil, gate.Signal{Quotas: []gate.Quota{{Remaining: 3, Reset: 30 * time.Second}}}},
		"the vendor's clock":      {github, answer(200, "Date: Wed, 25 Nov 2026 12:02:00 GMT", "X-Ratelimit-Remaining: 1", "X-Ratelimit-Reset: 1795608300"), nil, gate.Signal{Quotas: []gate.Quota{{Remaining: 1, Reset: 3 * time.Minute}}}},
		"a cache":                 {github, answer(200, "Age: 10", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1795608300"), nil, gate.Signal{}},
		"nothing":                 {github, answer(200), nil, gate.Signal{}},
		"Retry-After is read too": {[]gate.Header{{Name: "Retry-After", Format: gate.ResetInMillis}}, answer(429, "Retry-After: 5"), nil, gate.Signal{Limited: true, Pause: 5 * time.Second}},
		"an error":                {github, nil, errors.Join(io.EOF, refusal{time.Second}), gate.Signal{Limited: true, Pause: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := row.resp
			if before != nil {
				before = &http.Response{Header: row.resp.Header.Clone()}
			}
			require.Equal(t, row.want, gate.Headers(row.table...)(row.resp, row.err))
			if before != nil {
				require.Equal(t, before.Header, row.resp.Header, "it is not changed")
			}
		})
	}
}

// No text is misread: nothing is negative, and no reset is shorter than a number says.
func FuzzHeaders(f *testing.F) {
	for _, text := range []string{"0", "41", "1.5", "-1", "9223372037", "57.238747106s", "6m0s", "1795608300.5", "1795608300000", "2026-11-25T12:05Z", at, "32/40", "1e9", "NaN", ""} {
		f.Add("0", text, at)
	}
	units := map[gate.Format]time.Duration{gate.ResetIn: time.Second, gate.ResetInMillis: time.Millisecond, gate.ResetAt: time.Second, gate.ResetAtMillis: time.Millisecond, gate.ResetDuration: time.Second}
	f.Fuzz(func(t *testing.T, left, reset, date string) {
		for _, count := range []gate.Format{gate.Remaining, gate.UsedOf} {
			for _, format := range []gate.Format{gate.ResetIn, gate.ResetInMillis, gate.ResetDuration, gate.ResetAt, gate.ResetAtMillis, gate.ResetTime} {
				resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Left": {left}, "Reset": {reset}, "Date": {date}}}
				s := gate.Headers(gate.Header{Name: "Left", Format: count}, gate.Header{Name: "Reset", Format: format})(resp, nil)
				require.True(t, s.Limited)
				require.GreaterOrEqual(t, s.Pause, time.Duration(0))
				for _, q := range s.Quotas {
					require.GreaterOrEqual(t, q.Remaining, int64(0))
					require.GreaterOrEqual(t, q.Reset, time.Duration(0))
					if q.Remaining == 0 {
						require.Equal(t, q.Reset, s.Pause)
					}
					number, ok := new(big.Rat).SetString(strings.TrimSuffix(strings.TrimSpace(reset), "s"))
					if unit := units[format]; ok && unit > 0 && q.Reset > 0 {
						said := number.Mul(number, new(big.Rat).SetInt64(int64(unit)))
						if format == gate.ResetAt || format == gate.ResetAtMillis {
							now, err := http.ParseTime(strings.TrimSpace(date))
							if err != nil {
								continue // that of this machine
							}
							said.Sub(said, new(big.Rat).Mul(big.NewRat(now.Unix(), 1), big.NewRat(int64(time.Second), 1)))
						}
						require.GreaterOrEqual(t, new(big.Rat).SetInt64(int64(q.Reset)).Cmp(said), 0, "%s %q", format, reset)
					}
				}
			}
		}
	})
}

package known

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/outbound/gate"
)

// Discord knows the limits "global", of the bot, and "route". A refusal that tells neither, as of a banned address, names
// none. The pause is the longer one of Retry-After and retry_after of the body; without them, the reset of the route counts.
//
// Discord counts each channel, guild and webhook apart. So the Bucket of a route is X-RateLimit-Bucket and that part of the
// path. A refusal of the scope "shared" holds only the route.
func Discord(resp *http.Response, err error) gate.Signal {
	s := read(resp, err, gate.Header{Name: "X-RateLimit-Remaining", Format: gate.Remaining, Limit: "route"},
		gate.Header{Name: "X-RateLimit-Reset-After", Format: gate.ResetIn, Limit: "route"})
	if resp == nil || err != nil {
		return s
	}
	h, bucket, scope := resp.Header, resp.Header.Get("X-RateLimit-Bucket"), resp.Header.Get("X-RateLimit-Scope")
	if bucket != "" {
		if len(s.Quotas) == 0 {
			s.Quotas = []gate.Quota{{Limit: "route"}}
		}
		parts := strings.Split(path(resp), "/")
		at := slices.IndexFunc(parts, func(s string) bool { return s == "channels" || s == "guilds" || s == "webhooks" })
		if at >= 0 && at+1 < len(parts) {
			bucket += "/" + parts[at] + "/" + parts[at+1]
		}
		s.Quotas[0].Bucket = bucket
	}
	if resp.StatusCode != http.StatusTooManyRequests {
		return s
	}
	var body struct {
		Global     bool
		RetryAfter float64 `json:"retry_after"`
	}
	_ = json.Unmarshal(peek(resp), &body)
	only := http.Header{"Retry-After": h["Retry-After"], "Retry-After-Ms": h["Retry-After-Ms"], "Date": h["Date"]}
	pause, _ := client.RetryAfter(&http.Response{StatusCode: resp.StatusCode, Header: only})
	pause = max(pause, seconds(body.RetryAfter))
	global := body.Global || scope == "global" || strings.EqualFold(h.Get("X-RateLimit-Global"), "true")
	if global {
		s.Limit, s.Reason = "global", "global"
	} else if scope != "" || bucket != "" {
		s.Limit = "route"
		if scope == "shared" {
			s.Reason = scope
		}
	}
	if global || pause > 0 {
		s.Pause = pause
	}
	return s
}

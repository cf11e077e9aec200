package program

import (
	"net/http"
	"strconv"
	"time"
)

const sentHeader = "X-Sent"

// SetSent notes in a header that its request is sent now.
func SetSent(h http.Header) { h.Set(sentHeader, strconv.FormatInt(time.Now().UnixMicro(), 10)) }

// Sent returns the time of SetSent, in µs since 1970, or 0.
func Sent(h http.Header) int64 {
	sent, _ := strconv.ParseInt(h.Get(sentHeader), 10, 64) // a vendor's client need not send it
	return sent
}

// A Way is how long calls were on the way to a vendor.
type Way struct {
	least, most int64 // µs, with the difference of the clocks
	known       bool
}

// Add adds a call that arrived at a time in ns since 1970. One that was sent at 0 does not count.
func (w *Way) Add(sent, arrived int64) {
	if sent == 0 {
		return
	}
	way := arrived/1000 - sent
	if !w.known {
		w.least, w.most, w.known = way, way, true
	}
	w.least, w.most = min(w.least, way), max(w.most, way)
}

// Skew is the time by which one call was on the way for longer than another one.
func (w *Way) Skew() time.Duration { return time.Duration(w.most-w.least) * time.Microsecond }

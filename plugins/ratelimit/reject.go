package ratelimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/header"
	"github.com/gresil/gresil/internal/rejected"
	"github.com/gresil/gresil/internal/unread"
	"github.com/gresil/gresil/server"
)

// reject answers a request that is not let through.
func (s *settings) reject(w http.ResponseWriter, r *http.Request, links []link, counts int, cost int64) {
	s.counters.rejected.Inc()
	out := fields{header: w.Header(), style: s.cfg.Headers}
	var line *[1]string
	if out.style&HeaderDraft10 != 0 { // in one allocation
		room := new(struct {
			roomOfFive
			limited [1]string
		})
		out.values, out.text, line = room.values[:], room.text[:0], &room.limited
	} else {
		room := new(struct {
			roomOfThree
			limited [1]string
		})
		out.values, out.text, line = room.values[:], room.text[:0], &room.limited
	}
	limited(out.header, line, true)
	out.write(links, counts, true)
	info := links[counts].info(cost)
	s.refuse(w, r, violated(links), info, info.Result.RetryAfter)
}

// refuse answers a request that a limit does not allow. Its fields are set. A negative time after
// which the client should try again is sent as none.
func (s *settings) refuse(w http.ResponseWriter, r *http.Request, violated []*part, info Info, after time.Duration) {
	why := func() error { return &ratelimit.LimitedError{Name: info.Name, Result: info.Result} }
	if s.cfg.OnRejected != nil {
		outer, rec := w, new(server.Recorder)
		w = rec.Wrap(w) // to see whether it writes
		rec.OnHeader(func(status int) {
			if status != 0 { // no connection that it took over
				unread.Release(outer, r)
			}
		})
		h := w.Header()
		if after < 0 {
			h.Del("Retry-After")
		} else {
			h.Set("Retry-After", header.RetryAfter(after))
		}
		h.Set("Cache-Control", "no-store")
		server.MarkRejected(w, why())
		s.cfg.OnRejected(w, r, info) // if it writes, Reject does not
		if n := rejected.Of(r.Context()); n != nil && rec.Wrote() {
			n.Err, n.Status = why(), rec.Status()
		}
	}
	if info.Result.RetryAfter != Never && len(violated) == 1 {
		violated[0].refusal.Reject(w, r, after, why)
		return
	}
	names := make([]string, len(violated))
	for i, p := range violated {
		names[i] = p.name
	}
	rejection := quotaExceeded(names...)
	if info.Result.RetryAfter == Never {
		rejection = server.Rejection{Status: http.StatusRequestEntityTooLarge, Policies: names}
		rejection.Detail = "The request costs " + strconv.FormatInt(info.Cost, 10) + ", and the limit is " + strconv.FormatInt(info.Result.Limit, 10) + "."
	}
	rejection.RetryAfter, rejection.Err = after, why()
	server.Reject(w, r, rejection)
}

// quotaExceeded is the answer that some limits give. It does not have the time to wait,
// which Retry-After has, so that it can be prepared.
func quotaExceeded(policies ...string) server.Rejection {
	return server.Rejection{
		Status:   http.StatusTooManyRequests,
		Type:     "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:    "Request cannot be satisfied as assigned quota has been exceeded",
		Detail:   "Rate limit exceeded.",
		Policies: policies,
	}
}

// violated returns the limits that have refused.
func violated(links []link) (parts []*part) {
	for i := range links {
		l := &links[i]
		switch p := l.text.part(&l.result); {
		case l.result.Limit <= 0 || l.result.Allowed:
		case parts == nil:
			parts = p.alone[:1:1] // appending copies it
		default:
			parts = append(parts, p)
		}
	}
	return parts
}

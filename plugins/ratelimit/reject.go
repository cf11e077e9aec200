package ratelimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/problem"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/internal/rejected"
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
	never := info.Result.RetryAfter == Never
	if s.cfg.OnRejected == nil && !never && len(violated) == 1 {
		if recorder.Mark(w, why) {
			if n := rejected.Of(r.Context()); n != nil {
				n.Tell(why(), http.StatusTooManyRequests)
			}
			violated[0].refusal.Send(w, r, after)
		}
		return
	}
	names := make([]string, len(violated))
	for i, p := range violated {
		names[i] = p.name
	}
	q := quotaExceeded(names...)
	rejection := server.Rejection{Status: q.Status, Type: q.Type, Title: q.Title, Detail: q.Detail, Policies: names, RetryAfter: after, Err: why()}
	if never {
		rejection.Status, rejection.Type, rejection.Title = http.StatusRequestEntityTooLarge, "", ""
		rejection.Detail = "The request costs " + strconv.FormatInt(info.Cost, 10) + ", and the limit is " + strconv.FormatInt(info.Result.Limit, 10) + "."
	}
	s.answer(w, r, rejection)
}

// quotaExceeded is the answer that some limits give. It does not have the time to wait,
// which Retry-After has, so that it can be prepared.
func quotaExceeded(policies ...string) problem.Details {
	return problem.Details{
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

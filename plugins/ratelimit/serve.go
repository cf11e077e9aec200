package ratelimit

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/server"
)

// An exchange is all there is about one request, in one allocation. It is never
// used again, so the key and the header values may point into it.
type exchange struct {
	rec    server.Recorder
	header header
	key    [40]byte
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if s.cfg.Exclude != nil && s.cfg.Exclude(r) {
		next.ServeHTTP(w, r)
		return
	}
	x := &exchange{}
	w = x.rec.Wrap(w)
	u := s.rule(r)
	cost, err := u.weigh(r)
	if err != nil {
		fail(w, r, http.StatusInternalServerError, err)
		return
	}
	limiter, err := u.limiterFor(r)
	if err != nil {
		fail(w, r, http.StatusInternalServerError, err)
		return
	}
	key := s.keyOf(x.key[:0], u, r)
	ctx := r.Context()
	result, err := s.take(ctx, limiter, key, cost)
	if err != nil {
		fail(w, r, http.StatusServiceUnavailable, err)
		return
	}
	if result.Limit == 0 { // the store failed, and lets pass
		next.ServeHTTP(w, r)
		return
	}
	x.header.write(w.Header(), s.cfg.Headers, &u.draft, limiter.Limit(), result)
	info := func() Info { return Info{Name: s.limiter.Name(), Key: key, Cost: cost, Result: result} }
	if !result.Allowed {
		s.refuse(w, r, u, info())
		return
	}
	if s.cfg.OnSuccess != nil {
		s.cfg.OnSuccess(w, r, info())
	}
	defer func() {
		if x.rec.Rejected() != nil && result.Granted > 0 {
			refund(ctx, limiter, key, result)
		}
	}()
	next.ServeHTTP(w, r)
}

// take takes the permits. The error is never a refusal.
func (s *Server) take(ctx context.Context, limiter *ratelimit.Limiter, key string, cost int64) (Result, error) {
	if s.cfg.MaxWait == 0 {
		return limiter.Take(ctx, key, cost)
	}
	result, err := limiter.Wait(ctx, key, cost)
	if errors.Is(err, ratelimit.ErrLimited) {
		err = nil
	}
	return result, err
}

// refund gives back what a request took that a plugin further in has refused. If
// the store fails, it comes back in its time.
func refund(ctx context.Context, limiter *ratelimit.Limiter, key string, take Result) {
	_, _ = limiter.Refund(context.WithoutCancel(ctx), key, take)
}

// refuse answers a request that the limit does not allow.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, u *rule, info Info) {
	limited := &ratelimit.LimitedError{Name: info.Name, Result: info.Result}
	server.SetRetryAfter(w.Header(), info.Result.RetryAfter)
	w.Header().Set("Cache-Control", "no-store")
	wait := w.Header().Get("Retry-After")
	if s.cfg.OnRejected != nil {
		server.MarkRejected(w, limited)
		s.cfg.OnRejected(w, r, info) // if it writes, Reject does not
	}
	rejection := server.Rejection{Status: http.StatusRequestEntityTooLarge, RetryAfter: info.Result.RetryAfter, Policies: []string{u.name}, Err: limited}
	if info.Result.RetryAfter == Never {
		rejection.Detail = "The request costs " + strconv.FormatInt(info.Cost, 10) + ", and the limit is " + strconv.FormatInt(info.Result.Limit, 10) + "."
	} else {
		rejection.Status = http.StatusTooManyRequests
		rejection.Type = "https://iana.org/assignments/http-problem-types#quota-exceeded"
		rejection.Title = "Request cannot be satisfied as assigned quota has been exceeded"
		rejection.Detail = "Rate limit exceeded. Try again in " + wait + "s."
	}
	server.Reject(w, r, rejection)
}

// fail answers a request about which nothing can be decided.
func fail(w http.ResponseWriter, r *http.Request, status int, err error) {
	rejection := server.Rejection{Status: status, Err: err}
	var known *server.StatusError
	if errors.As(err, &known) && known.Status >= 400 && known.Status < 600 {
		rejection.Status, rejection.Detail = known.Status, known.Detail
	}
	server.Reject(w, r, rejection)
}

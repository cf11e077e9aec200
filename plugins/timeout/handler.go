package timeout

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/server"
)

var errPanic = errors.New("timeout: the handler panicked")

// A serving is one request and the handler that runs for it.
type serving struct {
	server *Server
	cfg    *ServerConfig
	w      http.ResponseWriter
	r      *http.Request
	ctx    limited
	held   heldWriter
	seen   recorder.Recorder // around held: has the marks of the handler
	sent   recorder.Recorder // around the writer below, with its optional methods

	ended     chan ending // of a handler that ended in time
	abandoned func()      // set before the limit, called by a handler that ends after it
}

// An ending is how a handler ended.
type ending struct {
	Ended
	exited bool // by runtime.Goexit
}

// serve runs next in a goroutine of its own, and answers the request at the limit.
func (s *serving) serve(cause *Error, next http.Handler) {
	s.ctx.start(s.r.Context(), cause, time.Now())
	defer s.ctx.release()
	ctx, cancel := context.WithCancel(&s.ctx) // contexts that the handler derives from it cost no goroutine
	defer cancel()
	s.w = s.sent.Wrap(s.w)
	s.held = heldWriter{w: s.w, seen: &s.seen, ctx: &s.ctx, max: s.cfg.maxBuffer(), cutsBody: s.cfg.CutBody, header: cloneHeader(s.w)}
	s.ended = make(chan ending, 1)
	limit := time.NewTimer(cause.Limit)
	defer limit.Stop()
	go s.run(next, s.seen.Wrap(s.held.writer()), s.request(ctx))
	select {
	case end := <-s.ended:
		s.finish(end)
		return
	case <-limit.C:
	}
	s.abandoned = s.server.timeout.Abandon()
	if !s.ctx.expire(nil) { // the response has begun, or the handler has just ended
		s.abandoned()
		s.finish(<-s.ended)
		return
	}
	begun := s.held.stop()
	if !begun {
		s.answer(cause)
	}
	_ = s.server.timeout.Finish(s.r.Context(), &s.ctx, cause) // the client got its answer
	if begun {
		panic(http.ErrAbortHandler) // the response is not complete; the client sees that by the closed connection
	}
}

// request returns the request of the handler, which may still change it after the limit,
// while outer middleware reads the original: so Header and URL are copies. The rest is
// shared, since net/http puts the trailer of the body into the map of its own request.
func (s *serving) request(ctx context.Context) *http.Request {
	r := s.r.WithContext(ctx)
	r.Header = r.Header.Clone()
	if r.URL != nil {
		u := *r.URL
		r.URL = &u
	}
	return r
}

// run is the goroutine of the handler.
func (s *serving) run(next http.Handler, w http.ResponseWriter, r *http.Request) {
	began, end := time.Now(), ending{exited: true}
	defer func() {
		if v := recover(); v != nil {
			end = ending{Ended: Ended{Elapsed: time.Since(began), Panic: v, Stack: debug.Stack()}}
		}
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll() // net/http removes only the form of its own request
		}
		if s.ctx.lift() {
			s.ended <- end
			return
		}
		s.abandoned()
		end.Elapsed = time.Since(began)
		s.server.late(s.cfg, r, end.Ended)
	}()
	next.ServeHTTP(w, r)
	end.exited = false
}

// finish ends a request whose handler has ended in time.
func (s *serving) finish(end ending) {
	if end.Panic != nil || end.exited {
		s.held.finish(false)
		_ = s.server.timeout.Finish(s.r.Context(), &s.ctx, errPanic) // the panic continues instead
	}
	switch {
	case end.Panic != nil:
		s.server.panicked(s.cfg, s.r, end.Ended)
		panic(end.Panic)
	case end.exited:
		runtime.Goexit()
	}
	s.held.finish(true)
	_ = s.server.timeout.Finish(s.r.Context(), &s.ctx, nil) // stays nil
}

// answer answers the request of a handler that has sent nothing. It is not marked as a
// rejection, since the handler was called.
func (s *serving) answer(cause *Error) {
	if s.r.ProtoMajor == 1 && s.r.Body != nil && s.r.Body != http.NoBody {
		// net/http then does not read the rest of the body. The connection could not be used again: a deadline
		// for reading ends the contexts of all further requests.
		s.w.Header().Set("Connection", "close")
	}
	reject.With(s.w, s.r, server.Rejection{Detail: "The request took too long.", Err: cause}, 0, s.cfg.OnRejected, server.Reject)
	s.freeReader() // not before: it ends the context of the request, at which outer plugins look with the header
}

// freeReader ends the reads of a slow upload by the handler: net/http closes the body after the answer,
// and would wait for the handler.
func (s *serving) freeReader() {
	if s.r.Body != nil && s.r.Body != http.NoBody {
		_ = http.NewResponseController(s.w).SetReadDeadline(time.Now())
	}
}

func (s *Server) panicked(cfg *ServerConfig, r *http.Request, end Ended) {
	if cfg.Panicked != nil && end.Panic != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		defer s.panics.Recover()
		cfg.Panicked(r.Context(), end)
	}
}

func (s *Server) late(cfg *ServerConfig, r *http.Request, end Ended) {
	if end.Panic != nil && end.Panic != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		s.latePanics.Add(1)
	}
	if cfg.Late != nil {
		defer s.panics.Recover()
		cfg.Late(r.Context(), end)
	}
}

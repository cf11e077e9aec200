package dash

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

const controlTimeout = 30 * time.Second

// An Action is a control that a client wants.
type Action struct {
	Verb   string // "pause", "resume", "flush", "retry" or "delete"
	Kind   string // of the instance in the registry, as "batch"
	Name   string // of the instance
	Option string // of the group or queue; it can be any text
}

// A verb is a control.
type verb struct {
	name, label string
	asks        bool // the page asks before, as it removes something
}

// verbOf returns the verb of a name.
func verbOf(name string) (verb, bool) {
	all := [...]verb{{"pause", "Pause", false}, {"resume", "Resume", false}, {"flush", "Flush", false}, {"retry", "Retry failed", false}, {"delete", "Delete", true}}
	at := slices.IndexFunc(all[:], func(v verb) bool { return v.name == name })
	if at < 0 {
		return verb{}, false
	}
	return all[at], true
}

// A planner looks for the part of an instance that a control names. The error is errUnknown or
// errVerb, or that of the instance.
type planner func(ctx context.Context, verb, option string) (plan, error)

// A plan is a control that can be done.
type plan struct {
	n    int    // records or jobs that it changes, or -1
	of   string // "records" or "jobs"
	does func(ctx context.Context) (n int, err error)
}

// control serves the controls.
func (h *Handler) control(w http.ResponseWriter, r *http.Request) {
	if !h.cfg.Controls {
		h.fail(w, r, http.StatusNotFound, "controls are off")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		h.fail(w, r, http.StatusMethodNotAllowed, "controls are POST")
		return
	}
	// A client that disconnects does not interrupt it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), controlTimeout)
	defer cancel()
	c, err := readCommand(w, r)
	var v verb
	var p plan
	if err == nil {
		v, p, err = h.prepare(ctx, r, &c)
	}
	if err == nil && v.asks && c.form && !c.confirmed {
		t := target{c.Kind, c.Name, c.Option}
		h.render(w, http.StatusOK, "question", question{
			frame: h.frame(r), Label: v.label, About: t.String(), N: p.n, Of: p.of, Verb: c.Verb, Target: t.encode(), Back: c.back, Page: "../" + backTo(c.back, ""),
		})
		return
	}
	n := -1
	if err == nil {
		n, err = guarded(-1, func() (int, error) { return p.does(ctx) })
	}
	h.answer(w, r, &c, n, err)
}

// guarded calls f, which calls code of users. After a panic it returns unknown.
func guarded[T any](unknown T, f func() (T, error)) (t T, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = unknown, &panicError{p}
		}
	}()
	return f()
}

// prepare returns the plan of a command that is allowed. It changes nothing.
func (h *Handler) prepare(ctx context.Context, r *http.Request, c *command) (verb, plan, error) {
	v, ok := verbOf(c.Verb)
	if !ok {
		return v, plan{}, &controlError{http.StatusBadRequest, fmt.Sprintf("verb = %q: must be pause, resume, flush, retry or delete", short(c.Verb))}
	}
	plans, err := guarded(nil, func() (planner, error) { return h.planner(c), nil })
	switch {
	case err != nil:
		return v, plan{}, err
	case plans == nil:
		return v, plan{}, &controlError{http.StatusNotFound, errUnknown.Error()}
	}
	if h.cfg.Allow != nil {
		if err := h.cfg.Allow(r, c.action()); err != nil {
			return v, plan{}, &controlError{http.StatusForbidden, err.Error()}
		}
	}
	p, err := guarded(plan{}, func() (plan, error) { return plans(ctx, c.Verb, c.Option) })
	switch {
	case errors.Is(err, errUnknown):
		err = &controlError{http.StatusNotFound, err.Error()}
	case errors.Is(err, errVerb):
		err = &controlError{http.StatusBadRequest, err.Error()}
	}
	return v, p, err
}

// answer records a control that has changed n records or jobs, or has failed, and sends its result.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, c *command, n int, err error) {
	refused := (*controlError)(nil)
	switch {
	case errors.As(err, &refused):
		h.record(r, slog.LevelWarn, "control refused", c.action(), slog.String("reason", refused.text))
		h.fail(w, r, refused.status, refused.text)
	case err != nil:
		h.record(r, slog.LevelWarn, "control failed", c.action(), slog.Int("count", n), slog.Any("err", err))
		after := ""
		if n >= 0 {
			after = fmt.Sprintf(" after %d changes", n)
		}
		h.fail(w, r, http.StatusServiceUnavailable, "the control failed"+after+": "+failure(err.Error(), h.cfg.Keys).Text)
	case c.form:
		h.record(r, slog.LevelInfo, "control done", c.action(), slog.Int("count", n))
		w.Header().Set("Location", "../"+backTo(c.back, c.Verb))
		w.WriteHeader(http.StatusSeeOther)
	default:
		h.record(r, slog.LevelInfo, "control done", c.action(), slog.Int("count", n))
		done := map[string]any{"verb": c.Verb, "kind": c.Kind, "name": c.Name, "option": c.Option, "count": nil}
		if n >= 0 {
			done["count"] = n
		}
		writeJSON(w, http.StatusOK, "application/json", done)
	}
}

// planner returns the planner of the instance of a command, or nil.
func (h *Handler) planner(c *command) planner {
	e, ok := h.registry.Get(c.Kind, c.Name)
	if !ok {
		return nil
	}
	for _, s := range sections() {
		if s.plans != nil {
			if plans := s.plans(e.Instance); plans != nil {
				return plans
			}
		}
	}
	return nil
}

// record logs a control.
func (h *Handler) record(r *http.Request, level slog.Level, text string, a Action, more ...slog.Attr) {
	if h.cfg.Logger == nil {
		return
	}
	attrs := []slog.Attr{slog.String("verb", a.Verb), slog.String("kind", a.Kind), slog.String("name", a.Name), slog.String("option", a.Option)}
	h.cfg.Logger.LogAttrs(r.Context(), level, text, append(attrs, more...)...) //nolint:sloglint // the texts of the callers are constants
}

// doneText is the notice after a control.
func doneText(name string) string {
	v, ok := verbOf(name)
	if !ok {
		return ""
	}
	return "Done: " + strings.ToLower(v.label) + "."
}

// A question is the page before a control that removes something.
type question struct {
	frame
	Label, About, Verb string
	N                  int // records or jobs
	Of                 string
	Target, Back, Page string
}

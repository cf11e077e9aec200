package dash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	maxBody        = 64 << 10
	controlTimeout = 30 * time.Second
)

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

// A target is the row of a control.
type target struct{ kind, name, option string }

func (r *row) target() target { return target{r.kind, r.name, r.option} }

// encode returns the target as ASCII: a browser changes line breaks and bytes that are not
// UTF-8 in the values of a form.
func (t target) encode() string {
	return url.Values{"kind": {t.kind}, "name": {t.name}, "option": {t.option}}.Encode()
}

func (t target) String() string {
	if t.option == "" {
		return visible(t.name)
	}
	return visible(t.name) + " " + short(visible(t.option))
}

// A command is the body of a control.
type command struct {
	Verb   string `json:"verb"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Option string `json:"option"`
	Target string `json:"target"` // kind, name and option, as in the rows

	form      bool
	confirmed bool
	back      string // query of the page
}

// A controlError is the error of a control with its status.
type controlError struct {
	status int
	text   string
}

func (e *controlError) Error() string { return e.text }

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
	c, err := readCommand(w, r)
	var n int
	if err == nil {
		n, err = h.obey(w, r, &c)
	}
	refused := (*controlError)(nil)
	switch {
	case errors.As(err, &refused):
		h.refuse(r, c.action(), refused.text)
		h.fail(w, r, refused.status, refused.text)
	case err != nil:
		h.refuse(r, c.action(), err.Error())
		h.fail(w, r, http.StatusServiceUnavailable, "the control failed: "+failure(err.Error(), h.cfg.Keys).Text)
	case n == asked:
	case c.form:
		w.Header().Set("Location", "../"+backTo(c.back, c.Verb))
		w.WriteHeader(http.StatusSeeOther)
	default:
		done := map[string]any{"verb": c.Verb, "kind": c.Kind, "name": c.Name, "option": c.Option, "count": nil}
		if n >= 0 {
			done["count"] = n
		}
		writeJSON(w, http.StatusOK, "application/json", done)
	}
}

// asked is the number of a control that has sent its question.
const asked = -2

// obey executes a command, or asks.
func (h *Handler) obey(w http.ResponseWriter, r *http.Request, c *command) (int, error) {
	v, ok := verbOf(c.Verb)
	if !ok {
		return 0, &controlError{http.StatusBadRequest, fmt.Sprintf("verb = %q: must be pause, resume, flush, retry or delete", short(c.Verb))}
	}
	plans := h.planner(c)
	if plans == nil {
		return 0, &controlError{http.StatusNotFound, errUnknown.Error()}
	}
	if h.cfg.Allow != nil {
		if err := h.cfg.Allow(r, c.action()); err != nil {
			return 0, &controlError{http.StatusForbidden, err.Error()}
		}
	}
	// A client that disconnects does not interrupt it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), controlTimeout)
	defer cancel()
	p, err := plans(ctx, c.Verb, c.Option)
	switch {
	case errors.Is(err, errUnknown):
		return 0, &controlError{http.StatusNotFound, err.Error()}
	case errors.Is(err, errVerb):
		return 0, &controlError{http.StatusBadRequest, err.Error()}
	case err != nil:
		return 0, err
	}
	if v.asks && c.form && !c.confirmed {
		t := target{c.Kind, c.Name, c.Option}
		h.render(w, http.StatusOK, "question", question{
			frame: h.frame(r), Label: v.label, About: t.String(), N: p.n, Of: p.of, Verb: c.Verb, Target: t.encode(), Back: c.back, Page: "../" + backTo(c.back, ""),
		})
		return asked, nil
	}
	n, err := p.does(ctx)
	if err != nil {
		return 0, err
	}
	if h.cfg.Logger != nil {
		h.cfg.Logger.LogAttrs(r.Context(), slog.LevelInfo, "control done", append(c.action().attrs(), slog.Int("count", n))...)
	}
	return n, nil
}

// planner returns the planner of the instance of a command, or nil.
func (h *Handler) planner(c *command) planner {
	instance, ok := h.registry.Get(c.Kind, c.Name)
	if !ok {
		return nil
	}
	for _, s := range sections() {
		if s.plans != nil {
			if plans := s.plans(instance); plans != nil {
				return plans
			}
		}
	}
	return nil
}

// refuse records a control that was not done.
func (h *Handler) refuse(r *http.Request, a Action, reason string) {
	if h.cfg.Logger != nil {
		h.cfg.Logger.LogAttrs(r.Context(), slog.LevelWarn, "control refused", append(a.attrs(), slog.String("reason", reason))...)
	}
}

func (a Action) attrs() []slog.Attr {
	return []slog.Attr{slog.String("verb", a.Verb), slog.String("kind", a.Kind), slog.String("name", a.Name), slog.String("option", a.Option)}
}

func (c *command) action() Action {
	return Action{Verb: c.Verb, Kind: c.Kind, Name: c.Name, Option: c.Option}
}

// readCommand reads a body: a form of the page, or JSON.
func readCommand(w http.ResponseWriter, r *http.Request) (c command, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch mediaType {
	case "application/json":
		body := json.NewDecoder(r.Body)
		body.DisallowUnknownFields()
		if err = body.Decode(&c); err == nil {
			if _, more := body.Token(); !errors.Is(more, io.EOF) {
				err = errors.New("there is more than one value")
			}
		}
	case "application/x-www-form-urlencoded":
		if err = r.ParseForm(); err == nil {
			c.readForm(r.PostForm)
		}
	default:
		return c, &controlError{http.StatusUnsupportedMediaType, "the body must be a form or application/json"}
	}
	if err == nil {
		err = c.resolve()
	}
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case errors.As(err, &tooLarge):
		return c, &controlError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxBody)}
	case err != nil:
		return c, &controlError{http.StatusBadRequest, "the body cannot be read: " + err.Error()}
	}
	return c, nil
}

func (c *command) readForm(form url.Values) {
	*c = command{
		Verb: form.Get("verb"), Kind: form.Get("kind"), Name: form.Get("name"), Option: form.Get("option"), Target: form.Get("target"),
		form: true, confirmed: form.Get("confirmed") == "yes", back: form.Get("back"),
	}
}

// resolve reads the target, if there is one.
func (c *command) resolve() error {
	if c.Target == "" {
		return nil
	}
	t, err := url.ParseQuery(c.Target)
	if err != nil {
		return err
	}
	c.Kind, c.Name, c.Option = t.Get("kind"), t.Get("name"), t.Get("option")
	return nil
}

// backTo returns the query of the page after a control. Anything but a query of ours is dropped.
func backTo(back, done string) string {
	q, err := parseQuery(strings.TrimPrefix(back, "?"), kinds())
	if err != nil {
		q = query{page: 1, rows: defaultRows}
	}
	to := q.String()
	if done != "" {
		to = strings.TrimSuffix("?"+url.Values{"done": {done}}.Encode()+"&"+to[1:], "&")
	}
	return to
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

func sortedTags(tags map[string]string) (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		texts = append(texts, name+"="+tags[name])
	}
	return texts
}

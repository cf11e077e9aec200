package dash

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

const controlTimeout, maxBody = 30 * time.Second, 64 << 10

// A command is the body of a control.
type command struct {
	Action

	Target string // kind, name and row, in the form that the state has
	Back   string `json:"-"` // query of the page, from its form
	form   bool   // sent by the form of the page
	asks   bool   // the page must ask before it deletes something
}

// A controlError is the error of a control, with the status of its response.
type controlError struct {
	status int
	text   string
}

func (e *controlError) Error() string { return e.text }

var errUnknown = &controlError{http.StatusNotFound, "there is no such target"}

// control serves the controls.
func (h *Handler) control(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		h.fail(w, r, http.StatusMethodNotAllowed, "controls are POST")
		return
	}
	// A client that disconnects does not interrupt the control.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), controlTimeout)
	defer cancel()
	c, err := readCommand(w, r)
	found, n := (*row)(nil), 0
	if err == nil {
		found, err = h.find(ctx, r, &c)
	}
	if err == nil && c.asks {
		found.fill(&view{keys: h.cfg.Keys, Now: time.Now(), Controls: true})
		h.render(w, http.StatusOK, "question", map[string]any{
			"Process": h.process, "Command": &c, "Row": found, "Page": backTo(c.Back, ""),
		})
		return
	}
	if err == nil {
		err = guarded(func() (err error) {
			n, err = found.in.Source.Control(ctx, c.Verb, c.Row)
			return err
		})
	}
	h.answer(w, r, &c, n, err)
}

// find returns the row of a command, if the command is allowed.
func (h *Handler) find(ctx context.Context, r *http.Request, c *command) (*row, error) {
	if err := h.cfg.Controls(r, c.Action); err != nil {
		return nil, &controlError{http.StatusForbidden, err.Error()}
	}
	e, ok := h.registry.Get(c.Kind, c.Name)
	if !ok || e.Source.Rows == nil || e.Source.Control == nil {
		return nil, errUnknown
	}
	rows, err := rowsOf(ctx, e)
	at := slices.IndexFunc(rows, func(r registry.Row) bool { return r.Key == c.Row && (!r.Secret || h.cfg.Keys) })
	switch {
	case at < 0:
		return nil, cmp.Or[error](err, errUnknown)
	case !slices.Contains(rows[at].Verbs, c.Verb):
		can := cmp.Or(strings.Join(rows[at].Verbs, ", "), "none")
		return nil, &controlError{http.StatusConflict, fmt.Sprintf("verb = %q: its state permits only: %s", short(c.Verb), can)}
	}
	return &row{of: rows[at], in: e}, nil
}

// readCommand reads a body: a form, as the page sends it, or JSON.
func readCommand(w http.ResponseWriter, r *http.Request) (c command, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	switch mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); mediaType {
	case "application/json":
		body := json.NewDecoder(r.Body)
		body.DisallowUnknownFields()
		err = body.Decode(&c)
	case "application/x-www-form-urlencoded":
		err = r.ParseForm()
		f := r.PostForm
		c.Action = Action{f.Get("verb"), f.Get("kind"), f.Get("name"), f.Get("row")}
		c.Target, c.Back, c.form = f.Get("target"), f.Get("back"), !wantsJSON(r)
		c.asks = c.form && f.Get("confirmed") == "" && strings.HasPrefix(c.Verb, "delete")
	default:
		return c, &controlError{http.StatusUnsupportedMediaType, "the body must be a form or application/json"}
	}
	if err == nil && c.Target != "" {
		var t url.Values
		t, err = url.ParseQuery(c.Target)
		c.Kind, c.Name, c.Row = t.Get("kind"), t.Get("name"), t.Get("row")
	}
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case errors.As(err, &tooLarge):
		return c, &controlError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxBody)}
	case err != nil:
		return c, &controlError{http.StatusBadRequest, "the body cannot be read: " + err.Error()}
	}
	return c, nil
}

// answer records a control, which has made n changes or has failed, and sends its result.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, c *command, n int, err error) {
	refused := (*controlError)(nil)
	switch {
	case errors.As(err, &refused):
		asked := Action{short(c.Verb), short(c.Kind), short(c.Name), short(c.Row)} // anybody can send it
		h.record(r, slog.LevelWarn, "control refused", asked, slog.String("reason", short(refused.text)))
		h.fail(w, r, refused.status, refused.text)
	case err != nil:
		h.record(r, slog.LevelWarn, "control failed", c.Action, slog.Int("count", n), slog.Any("err", err))
		reason := (&view{keys: h.cfg.Keys}).text(err.Error(), true).Full
		h.fail(w, r, http.StatusServiceUnavailable, fmt.Sprintf("the control failed after %d changes: %s", n, reason))
	default:
		h.record(r, slog.LevelInfo, "control done", c.Action, slog.Int("count", n))
		if c.form {
			w.Header().Set("Location", backTo(c.Back, "yes"))
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		writeJSON(w, map[string]any{"verb": c.Verb, "kind": c.Kind, "name": c.Name, "row": c.Row, "count": n})
	}
}

// record logs a control.
func (h *Handler) record(r *http.Request, level slog.Level, text string, a Action, more ...slog.Attr) {
	attrs := []slog.Attr{slog.String("verb", a.Verb), slog.String("kind", a.Kind), slog.String("name", a.Name), slog.String("row", a.Row)}
	h.cfg.Logger.LogAttrs(r.Context(), level, text, append(attrs, more...)...) //nolint:sloglint // the texts of the callers are constants
}

// backTo returns the address of the page after a control. It keeps only the query that the page itself uses.
func backTo(back, done string) string {
	q, _ := parseQuery(strings.TrimPrefix(back, "./?")) // a part that cannot be used gets its default
	q.Done = done
	return q.String()
}

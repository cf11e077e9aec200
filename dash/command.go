package dash

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

const maxBody = 64 << 10

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

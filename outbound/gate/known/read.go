package known

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/fields"
	"github.com/gresil/gresil/outbound/gate"
)

// read returns what gate.Classify and the headers say about a response, without its body.
func read(resp *http.Response, err error, h ...gate.Header) gate.Signal {
	if resp != nil {
		from := *resp
		from.Body = nil
		resp = &from
	}
	return gate.Headers(h...)(resp, err) //nolint:bodyclose // it opens none
}

// peek returns the beginning of a body, which can be read again.
func peek(resp *http.Response) []byte {
	if resp == nil || resp.Body == nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // as much as can be read
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	return text
}

// path returns the path of the request, or "" if it is not known.
func path(resp *http.Response) string {
	if resp.Request == nil || resp.Request.URL == nil {
		return ""
	}
	return resp.Request.URL.Path
}

// graphQL reports whether a response can be one of GraphQL, which has its errors in the body.
func graphQL(resp *http.Response) bool {
	kind, asked := resp.Header.Get("Content-Type"), strings.TrimSuffix(path(resp), ".json")
	is := (kind == "" || strings.Contains(kind, "json")) && (asked == "" || strings.HasSuffix(asked, "/graphql"))
	return is && resp.StatusCode == http.StatusOK
}

// seconds is rounded up, at least 0, and at most the longest duration. NaN is 0.
func seconds(f float64) time.Duration {
	n, _ := fields.ParseNumber(strconv.FormatFloat(min(f, 1e18), 'f', -1, 64))
	return n.Times(time.Second)
}

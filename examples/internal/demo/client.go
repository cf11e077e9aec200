package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"

	"github.com/gresil/gresil/core"
)

// An Answer is a response whose body has been read.
type Answer struct {
	*http.Response

	Text []byte
}

// Most is the size of a body at most.
const Most = 64 << 20

// Fetch sends a request, which says when, and reads the response. The error is without the path, which can be long.
func Fetch(ctx context.Context, c *http.Client, method, to string, header http.Header, body []byte) (a Answer, err error) {
	sent := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// It is called right before the request is written.
		GotConn: func(httptrace.GotConnInfo) { header.Set(sentHeader, strconv.FormatInt(time.Now().UnixMicro(), 10)) },
	})
	req, err := http.NewRequestWithContext(sent, method, to, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header = header
	if a.Response, err = c.Do(req); err == nil { //nolint:bodyclose // below
		defer func() { _ = a.Body.Close() }()
		a.Text, err = io.ReadAll(io.LimitReader(a.Body, Most))
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if err != nil && !errors.Is(err, core.ErrRejected) { // which was not sent
		err = fmt.Errorf("no answer from %s://%s: %w", req.URL.Scheme, req.URL.Host, err)
	}
	return a, err
}

// Figures are those of a vendor, as it gave them.
type Figures map[string]json.RawMessage

// Num returns a figure that is a number, otherwise 0.
func (f Figures) Num(name string) (x float64) {
	_ = json.Unmarshal(f[name], &x) // as documented
	return x
}

const judgeTime = time.Minute

// Judge reads the figures of a vendor, within a minute. They are nil if it has no /judge.
func Judge(ctx context.Context, vendor string) (f Figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := Fetch(ctx, c, http.MethodGet, vendor+"/judge", http.Header{}, nil)
	switch {
	case err != nil:
		return nil, err
	case a.StatusCode == http.StatusNotFound:
		return nil, nil
	case a.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s/judge answers %s: must be 200 with JSON, or 404", vendor, a.Status)
	}
	if err := json.Unmarshal(a.Text, &f); err != nil {
		return nil, fmt.Errorf("%s/judge must answer with a JSON object of numbers: %w", vendor, err)
	}
	return f, nil
}

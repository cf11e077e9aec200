package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const judgeTime = time.Minute

// Judge reads the figures of a vendor, within a minute. They are nil if it has no /judge.
func Judge[Figures any](ctx context.Context, vendor string) (*Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, vendor+"/judge", http.NoBody)
	if err != nil {
		return nil, err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, NoAnswer(vendor, err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusNotFound:
		return nil, nil //nolint:nilnil // as documented
	case http.StatusOK:
	default:
		return nil, fmt.Errorf("%s/judge answers %s: must be 200 with JSON, or 404", vendor, resp.Status)
	}
	f := new(Figures)
	if err := json.NewDecoder(resp.Body).Decode(f); err != nil {
		return nil, fmt.Errorf("%s/judge must answer with a JSON object of numbers: %w", vendor, err)
	}
	return f, nil
}

// NoAnswer returns the error of a request to a vendor, without its URL, which is long.
func NoAnswer(vendor string, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return fmt.Errorf("no answer from the vendor at %s: %w", vendor, err)
}

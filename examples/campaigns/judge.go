package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// figures are those of the vendor, as it gave them.
type figures struct {
	Arrivals    json.Number `json:"arrivals,omitempty"`
	Unique      json.Number `json:"unique,omitempty"`
	Duplicates  json.Number `json:"duplicates,omitempty"`
	MostSliding json.Number `json:"most_sliding,omitempty"`
	MostFixed   json.Number `json:"most_fixed,omitempty"`
	Seconds     json.Number `json:"seconds,omitempty"`
	Stall       json.Number `json:"stall_ms,omitempty"`
}

func value(n json.Number) float64 {
	x, _ := n.Float64() // 0 if there is none
	return x
}

const judgeTime = time.Minute

// judge reads the figures of a vendor. They are nil if it has none.
func judge(ctx context.Context, vendor string) (*figures, error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, vendor+"/judge", http.NoBody)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("no answer from the vendor at %s: %w", vendor, err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusNotFound:
		return nil, nil //nolint:nilnil // as documented
	case http.StatusOK:
	default:
		return nil, fmt.Errorf("%s/judge answers %s: must be 200 with JSON, or 404", vendor, resp.Status)
	}
	var f figures
	if err := json.NewDecoder(resp.Body).Decode(&f); err != nil {
		return nil, fmt.Errorf("%s/judge must answer with a JSON object of numbers: %w", vendor, err)
	}
	return &f, nil
}

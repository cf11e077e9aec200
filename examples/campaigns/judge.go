package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
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
	return program.Judge[figures](ctx, vendor)
}

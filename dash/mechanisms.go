package dash

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/registry"
)

// reporters shows the figures of what has no table of its own, such as breakers and limiters.
func reporters() *section {
	return &section{
		kind: "services", title: "Mechanisms and other services",
		columns: []column{{"kind", "Kind"}, {"figures", "Figures"}},
		reads: func(e registry.Entry) reader {
			if e.Source.Figures == nil {
				return nil
			}
			return func(context.Context, view) ([]row, error) {
				return []row{{cells: []cell{text(e.Kind), listed(e.Source.Figures())}}}, nil
			}
		},
	}
}

// A figure is a number in JSON.
type figure struct {
	Name   string   `json:"name"`
	Labels []string `json:"labels,omitempty"`
	N      float64  `json:"n"`
}

// listed shows the numbers that are not 0, without histograms.
func listed(figures registry.Figures) cell {
	figures = slices.DeleteFunc(figures, func(f registry.Figure) bool { return f.N == 0 })
	values, lines := []figure{}, []string(nil)
	for _, f := range figures[:min(len(figures), maxLines)] {
		values = append(values, figure{f.Name, f.Labels, f.N})
		var labels strings.Builder
		for label := range slices.Chunk(f.Labels, 2) {
			fmt.Fprintf(&labels, "{%s=%q}", visible(label[0]), label[1])
		}
		lines = append(lines, fmt.Sprintf("%s%s %v", visible(f.Name), &labels, f.N))
	}
	return list(len(figures), values, lines)
}

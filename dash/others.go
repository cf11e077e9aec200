package dash

import (
	"context"
	"fmt"

	"github.com/gresil/gresil/core"
)

// reporters shows the figures of services that have no table of their own.
func reporters() *section {
	return &section{
		kind: "services", title: "Other services",
		columns: []column{{"kind", "Kind"}, {"figures", "Figures"}},
		reads: func(e core.Entry) reader {
			reporter, ok := as[core.Reporter](e.Instance)
			if !ok {
				return nil
			}
			return func(context.Context, view) ([]row, error) {
				figures, _ := reporter.Figures()
				return []row{{cells: []cell{text(e.Kind), listed(figures)}}}, nil
			}
		},
	}
}

// A figure is one of a [core.Reporter] in JSON.
type figure struct {
	Name  string  `json:"name"`
	Label string  `json:"label,omitempty"`
	Value string  `json:"value,omitempty"`
	N     float64 `json:"n"`
}

func listed(figures []core.Figure) cell {
	values, lines := []figure{}, []string(nil)
	for _, f := range figures[:min(len(figures), maxLines)] {
		values = append(values, figure{f.Name, f.Label, f.Value, f.N})
		name := visible(f.Name)
		if f.Label != "" {
			name += fmt.Sprintf("{%s=%q}", visible(f.Label), f.Value)
		}
		lines = append(lines, fmt.Sprintf("%s %v", name, f.N))
	}
	return list(len(figures), values, lines)
}

// others lists the other instances in the registry, such as breakers and limiters.
func others() *section {
	return &section{
		kind: "others", title: "Other instances", quick: true,
		columns: []column{{"kind", "Kind"}, {"type", "Type"}},
		reads: func(e core.Entry) reader {
			return func(context.Context, view) ([]row, error) {
				return []row{{cells: []cell{text(e.Kind), text(fmt.Sprintf("%T", e.Instance))}}}, nil
			}
		},
	}
}

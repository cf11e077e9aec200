package dash

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gresil/gresil/internal/registry"
)

// about returns the figures and the Config of an instance.
func (v *view) about(e registry.Entry) (figures, config cell) {
	if err := guarded(func() error {
		if e.Source.Figures != nil {
			figures = figuresOf(e.Source.Figures())
		}
		if e.Source.Config != nil {
			lines := v.settings([]string{}, "", reflect.ValueOf(e.Source.Config()))
			slices.Sort(lines) // the order of maps is random
			config = list(lines, lines)
		}
		return nil
	}); err != nil {
		figures = v.text(err.Error(), true)
	}
	return figures, config
}

// figuresOf shows the numbers that are not 0, without histograms.
func figuresOf(all registry.Figures) cell {
	values, lines := map[string]any{}, []string(nil)
	for _, f := range all {
		if _, ok := float(f.N); !ok || f.N == 0 || f.Dist != nil {
			continue
		}
		name, labels := visible(f.Name), []string(nil)
		for label := range slices.Chunk(f.Labels, 2) {
			labels = append(labels, visible(label[0])+"="+strconv.Quote(label[1]))
		}
		if len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		values[name] = f.N
		lines = append(lines, name+" "+decimal(f.N))
	}
	return list(lines, values)
}

// settings adds a line for each field of a Config that is set, up to 100 lines. For functions, pointers and interfaces, a line has the
// result of their String method, if they have one.
func (v *view) settings(lines []string, field string, of reflect.Value) []string {
	if !of.IsValid() || of.IsZero() || len(lines) == 100 {
		return lines
	}
	text, ok := of.Interface().(fmt.Stringer)
	kind, value := of.Kind(), "(set)"
	switch {
	case ok:
		value = text.String()
	case kind == reflect.Struct:
		for i := range of.NumField() {
			if f := of.Type().Field(i); f.IsExported() && f.Name != "Registry" && (field != "" || f.Name != "Name") {
				lines = v.settings(lines, strings.TrimPrefix(field+"."+f.Name, "."), of.Field(i))
			}
		}
		return lines
	case kind == reflect.Slice || kind == reflect.Array || kind == reflect.Map:
		for key, value := range of.Seq2() {
			lines = v.settings(lines, fmt.Sprintf("%s[%v]", field, key), value)
		}
		return lines
	case kind < reflect.Array || kind == reflect.String: // a bool or a number
		value = fmt.Sprint(of.Interface())
	}
	return append(lines, v.text(field+" = "+value, true).Full)
}

// Command charts draws the charts of docs/benchmarks.md from the JSON of cmd/compare and cmd/redis. It exits with 1
// if a file cannot be read, used or written, and with 2 for a wrong command line.
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("charts", flag.ContinueOnError)
	flags.SetOutput(stderr)
	compare := flags.String("compare", "compare.json", "the `FILE` that cmd/compare -json has printed")
	redis := flags.String("redis", "redis.json", "the `FILE` that cmd/redis -json has printed")
	out := flags.String("out", "../docs/charts", "the `DIRECTORY` of the charts; it is created if it does not exist")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "charts: there are flags only, not %q\n", flags.Arg(0))
		return 2
	}
	if err := draw(*compare, *redis, *out); err != nil {
		fmt.Fprintf(stderr, "charts: %v\n", err)
		return 1
	}
	return 0
}

func draw(compare, redis, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	for _, c := range []struct {
		name, file, command string
		chart               func([]row) (string, error)
	}{{"compare.svg", compare, "compare", comparison}, {"redis.svg", redis, "redis", perMode}, {"growth.svg", redis, "redis", growth}} {
		var rows []row
		var svg string
		text, err := os.ReadFile(c.file)
		if err == nil {
			err = json.Unmarshal(text, &rows)
		}
		if err == nil {
			svg, err = c.chart(rows)
		}
		if err != nil {
			return fmt.Errorf("-%s %s: %w; make it with go -C bench run ./cmd/%[1]s -json > bench/%[1]s.json", c.command, c.file, err)
		}
		if err := os.WriteFile(filepath.Join(out, c.name), []byte(svg), 0o644); err != nil {
			return fmt.Errorf("-out: %w", err)
		}
	}
	return nil
}

// A row has the fields of both commands that the charts show.
type row struct {
	Row       string
	Ratio     *float64 // cmd/compare: ours to the best peer's; nil without a peer
	Disturbed bool
	Ours      *float64 // cmd/redis
	RedisRate *float64 `json:"redis_rate"`
}

// A bar is a line of a bar chart: a quotient beside 1, or a heading if it has no class.
type bar struct {
	label, class string
	quotient     float64
}

// comparison is ours to the best peer's for each row that has a peer, grouped by what is before the colon.
func comparison(rows []row) (string, error) {
	var bars []bar
	heading := ""
	for _, r := range rows {
		if r.Ratio == nil {
			continue
		}
		if *r.Ratio < 0 {
			return "", fmt.Errorf("row %q: ratio is %v, and must be >= 0", r.Row, *r.Ratio)
		}
		group, label, found := strings.Cut(r.Row, ": ")
		if !found {
			group, label, _ = strings.Cut(r.Row, ", ")
		}
		if group != heading {
			bars, heading = append(bars, bar{label: group}), group
		}
		b := bar{label: label, class: "better", quotient: *r.Ratio}
		if *r.Ratio > 1 {
			b.class = "worse"
		}
		if r.Disturbed {
			b.class += " disturbed"
		}
		bars = append(bars, b)
	}
	if bars == nil {
		return "", errors.New(`no row has a "ratio"`)
	}
	return barChart("Ours and the best peer", "ours / best peer: to the left of 1 we are better (logarithmic)",
		bars, -4, 4, "better", "worse", "disturbed"), nil
}

const decisions = " [decisions/s]"

// perMode is ours to redis_rate's decisions/s for each row that has both, with a bar for each mode.
func perMode(rows []row) (string, error) {
	var bars []bar
	heading := ""
	for _, r := range rows {
		name, found := strings.CutSuffix(r.Row, decisions)
		if !found || r.Ours == nil || r.RedisRate == nil {
			continue
		}
		if *r.Ours <= 0 || *r.RedisRate <= 0 {
			return "", fmt.Errorf("row %q: ours is %v and redis_rate is %v, and both must be > 0", r.Row, *r.Ours, *r.RedisRate)
		}
		i := max(0, strings.LastIndex(name, ", "))
		if name[:i] != heading {
			bars, heading = append(bars, bar{label: name[:i]}), name[:i]
		}
		mode := strings.TrimPrefix(name[i:], ", ")
		bars = append(bars, bar{label: mode, class: mode, quotient: *r.Ours / *r.RedisRate})
	}
	if bars == nil {
		return "", fmt.Errorf("no row whose name ends in %q has both \"ours\" and \"redis_rate\"", decisions)
	}
	return barChart("Decisions over Redis: ours and redis_rate",
		"decisions/s, ours / redis_rate: to the right of 1 we are better (logarithmic)", bars, -2, 6, "strict", "coalesced", "lease"), nil
}

// The plot of a chart begins at top, that of a bar chart also at plot. An octave is as wide as octave, and a line as high as line.
const plot, octave, top, line, barHigh = 370, 45, 84, 18, 11

// barChart draws bars from 1 to their quotients, from 2^least to 2^most; longer ones end at the edge of the plot.
func barChart(title, axis string, bars []bar, least, most int, legend ...string) string {
	var s strings.Builder
	bottom := top + line*len(bars)
	begin(&s, bottom+12, title, axis, legend...)
	one := plot - octave*least
	for e := least; e <= most; e++ {
		x := one + octave*e
		fmt.Fprintf(&s, `<path class="grid" d="M%d %dV%d"/>`, x, top-4, bottom)
		fmt.Fprintf(&s, `<text class="mid" x="%d" y="%d">%v</text>`+"\n", x, top-9, math.Exp2(float64(e)))
	}
	fmt.Fprintf(&s, `<path class="one" d="M%d %dV%d"/>`+"\n", one, top-4, bottom)
	for i, b := range bars {
		y := top + line*i
		if b.class == "" {
			fmt.Fprintf(&s, `<text class="bold" x="10" y="%d">%s</text>`+"\n", y+13, html.EscapeString(b.label))
			continue
		}
		end := min(max(math.Log2(b.quotient), float64(least)), float64(most)) * octave
		fmt.Fprintf(&s, `<text class="end" x="%d" y="%d">%s</text>`, plot-8, y+13, html.EscapeString(b.label))
		fmt.Fprintf(&s, `<rect class="bar %s" x="%.1f" y="%d" width="%.1f" height="%d"/>`,
			html.EscapeString(b.class), float64(one)+min(end, 0), y+3, math.Abs(end), barHigh)
		fmt.Fprintf(&s, `<text class="end" x="790" y="%d">%.2f</text>`+"\n", y+13, b.quotient)
	}
	return s.String() + "</svg>\n"
}

// growth is decisions/s by the number of callers and by the number of keys, in two plots with one scale.
func growth(rows []row) (string, error) {
	const many = "10,000 keys, allowed" // for 64 callers
	plots := []struct {
		axis        string
		ticks, rows []string // the rows without "token bucket, " and the mode
	}{{
		"callers, 10,000 keys",
		[]string{"1", "4", "16", "64", "256"},
		[]string{"10,000 keys, 1 caller", "10,000 keys, 4 callers", "10,000 keys, 16 callers", many, "10,000 keys, 256 callers"},
	}, {
		"keys, 64 callers",
		[]string{"1", "100", "10,000", "1,000,000, cold"},
		[]string{"1 key, allowed", "100 hot keys, allowed", many, "1,000,000 cold keys, allowed"},
	}}
	subjects := []string{"strict", "coalesced", "redis_rate"}
	values, most := map[[2]string]float64{}, 1.0
	for _, of := range slices.Concat(plots[0].rows, plots[1].rows) {
		for _, mode := range subjects[:2] {
			name := "token bucket, " + of + ", " + mode + decisions
			i := slices.IndexFunc(rows, func(r row) bool { return r.Row == name })
			if i < 0 || rows[i].Ours == nil || rows[i].RedisRate == nil {
				return "", fmt.Errorf("there is no row %q with \"ours\" and \"redis_rate\"", name)
			}
			values[[2]string{of, mode}], values[[2]string{of, "redis_rate"}] = *rows[i].Ours, *rows[i].RedisRate
			most = max(most, *rows[i].Ours, *rows[i].RedisRate)
		}
	}
	step := math.Pow(10, math.Floor(math.Log10(most/2)))
	for most/step > 8 {
		step *= 2
	}
	const left, wide, high, between, bottom = 66, 310, 240, 390, top + 240
	var s strings.Builder
	begin(&s, bottom+52, "Decisions over Redis by callers and keys", "decisions/s, token bucket", subjects...)
	steps := int(math.Ceil(most / step))
	for i, p := range plots {
		x := left + between*i
		for n := range steps + 1 {
			y := bottom - high*n/steps
			fmt.Fprintf(&s, `<path class="grid" d="M%d %dH%d"/>`, x, y, x+wide)
			fmt.Fprintf(&s, `<text class="end" x="%d" y="%d">%.0f</text>`+"\n", x-6, y+4, step*float64(n))
		}
		at := func(k int) float64 { return float64(x+20) + float64((wide-40)*k)/float64(len(p.ticks)-1) }
		for k, tick := range p.ticks {
			fmt.Fprintf(&s, `<text class="mid" x="%.1f" y="%d">%s</text>`, at(k), bottom+18, tick)
		}
		fmt.Fprintf(&s, `<text class="mid" x="%d" y="%d">%s (logarithmic)</text>`+"\n", x+wide/2, bottom+38, p.axis)
		for _, subject := range subjects {
			var points []string
			for k, of := range p.rows {
				y := bottom - high*values[[2]string{of, subject}]/(step*float64(steps))
				points = append(points, fmt.Sprintf("%.1f,%.1f", at(k), y))
				fmt.Fprintf(&s, `<circle class="%s" cx="%.1f" cy="%.1f" r="4"/>`, subject, at(k), y)
			}
			fmt.Fprintf(&s, `<polyline class="line %s" points="%s"/>`+"\n", subject, strings.Join(points, " "))
		}
	}
	return s.String() + "</svg>\n", nil
}

//go:embed style.css
var style string

// begin writes what is above the plot: the title, the axis, and a legend of classes.
func begin(s *strings.Builder, height int, title, axis string, legend ...string) {
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" width="800" height="%d" viewBox="0 0 800 %[1]d" role="img">`+"\n", height)
	fmt.Fprintf(s, "<title>%s</title>\n<style>\n%s</style>\n", title, style)
	fmt.Fprintf(s, `<rect class="page" width="800" height="%d"/>`, height)
	fmt.Fprintf(s, `<text class="title" x="10" y="26">%s</text><text x="10" y="48">%s</text>`+"\n", title, axis)
	for i, class := range legend {
		x := 800 - 90*(len(legend)-i)
		fmt.Fprintf(s, `<circle class="%s" cx="%d" cy="44" r="5"/><text x="%d" y="48">%[1]s</text>`+"\n", class, x, x+10)
	}
}

package ratelimittest

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

//nolint:gochecknoglobals // constants
var (
	singles = []string{
		"$1/$2$3", "$1/$2$3 burst $1", "sliding_window $1/$2$3 segments 2", "sliding_counter $1/$2$3", "sliding_log $1/$2$3",
		"$1/${2}000$3 aligned",
	}
	joined = "$1/$2$3 and sliding_log $1/$2$3 and $1/$2$3 burst $1"

	patterns = []struct {
		limit *regexp.Regexp
		forms []string
	}{
		{regexp.MustCompile(`\bany (\d+)/(\d+)(\w)`), append([]string{joined}, singles[:5]...)},
		{regexp.MustCompile(`\bone (\d+)/(\d+)(\w)`), singles},
		{regexp.MustCompile(`\bother (\d+)/(\d+)(\w)`), singles},
	}
	units = regexp.MustCompile(`([0-9.]+)u\b`)
	verbs = map[string]limits.OpKind{
		"take": limits.Take, "most": limits.TakeAtMost, "reserve": limits.Reserve, "refund": limits.Refund, "reset": limits.Reset,
		"check": limits.Check, "drain": limits.Drain,
	}
)

// variants returns a script with limits of every algorithm instead of patterns.
func variants(text string) (all []string) {
	for _, p := range patterns {
		if p.limit.MatchString(text) {
			for _, form := range p.forms {
				all = append(all, variants(p.limit.ReplaceAllString(text, form))...)
			}
			return all
		}
	}
	return []string{text}
}

// script runs steps, which are separated by semicolons:
//
//	a: 10/2u and 5/1h burst 5   names a limit; u is Unit. In place of "any 10/1h" there is a limit of each algorithm in turn, and
//	                            joined ones; in place of "one 10/1h" one of each, and of "other 10/1h" independently
//	a 3x take 5 -> no left 2    under a (or as before), three times, with what is expected
//	x = take 2; refund x        names a take
//	reserve 1 within 3u         10u if nothing is said
//	key k                       for the following steps
//	sleep 2u                    with a + after it, and for Slack
//	sum 60 67                   how many permits were taken in all, at least and at most
//
// What is expected of a result: see [suite.expect].
func (s *suite) script(text string) {
	for i, text := range variants(text) {
		r := run{suite: s, variant: strconv.Itoa(i) + ":", plans: map[string]*limits.Plan{}, takes: map[string]limits.Result{}}
		for _, step := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
			if r.text = strings.TrimSpace(step); r.text != "" {
				r.step(units.ReplaceAllStringFunc(r.text, s.inUnits))
			}
		}
	}
}

// inUnits returns the text of the duration of so many units.
func (s *suite) inUnits(n string) string {
	return time.Duration(core.Must(strconv.ParseFloat(strings.TrimSuffix(n, "u"), 64)) * float64(s.Unit)).String()
}

// A run is the state of a script.
type run struct {
	*suite
	variant, key string
	text         string // of the step
	plans        map[string]*limits.Plan
	plan         *limits.Plan // the last one
	takes        map[string]limits.Result
	last, slept  int64 // times of the store: of the last result, and of the one before the last sleep
	sum          int64
}

func (r *run) step(text string) {
	do, want, _ := strings.Cut(text, "->")
	words := strings.Fields(do)
	if p := r.plans[words[0]]; p != nil {
		r.plan, words = p, words[1:]
	}
	times, name := int64(1), ""
	if n, ok := strings.CutSuffix(words[0], "x"); ok && n != "" {
		times, words = number(n), words[1:]
	}
	if len(words) > 1 && words[1] == "=" {
		name, words = words[0], words[2:]
	}
	of, arg := strings.CutSuffix(words[0], ":")
	switch verb, args := words[0], append(words[1:], ""); {
	case arg:
		r.plans[of] = r.planOf(limitOf(strings.Join(words[1:], " ")))
	case verb == "key":
		r.key, r.last, r.slept = args[0], 0, 0
	case verb == "close":
		require.NoError(r, r.store.Close())
	case verb == "sum":
		require.True(r, r.sum >= number(args[0]) && r.sum <= number(args[1]), "%s: %d permits", r.text, r.sum)
	case verb == "sleep":
		d, slack := strings.CutSuffix(args[0], "+")
		time.Sleep(duration(d))
		if r.slept = r.last; slack {
			time.Sleep(r.Slack)
		}
	default:
		op := limits.Op{Kind: verbs[verb], MaxWait: 10 * r.Unit}
		if take, ok := r.takes[args[0]]; ok && op.Kind == limits.Refund {
			op.Cost, op.Receipt = take.Permits, take.Receipt
		} else if args[0] != "" {
			op.Cost = number(args[0])
		}
		if len(args) > 3 && args[1] == "within" {
			op.MaxWait = duration(args[2])
		}
		for range times {
			r.takes[name] = r.do(op, strings.Fields(want))
		}
	}
}

// do does an operation, and checks its result.
func (r *run) do(op limits.Op, want []string) limits.Result {
	got, err := r.table.Apply(context.Background(), r.variant+r.key, r.plan, op)
	if len(want) > 0 && want[0] == "error" {
		require.Error(r, err, "%s: %+v", r.text, got)
		return got
	}
	require.NoError(r, err, r.text)
	at := got.Receipt.At // less than 0 if another one than the store has decided
	require.False(r, at >= 0 && at < r.last || at >= 0 && r.slept > 0 && at == r.slept, "%s: at %d, after one at %d: %+v", r.text, at, r.last, got)
	require.True(r, got.Wait >= 0 && got.Allowed == (got.RetryAfter == 0), "%s: %+v", r.text, got)
	r.last, r.sum = max(r.last, at), r.sum+got.Permits
	r.expect(got, want)
	return got
}

// expect checks a result against words.
func (r *run) expect(got limits.Result, words []string) {
	next := func() string { word := words[0]; words = words[1:]; return word }
	for len(words) > 0 {
		var ok bool
		switch word := next(); word {
		case "no": // refused for now
			ok = !got.Allowed && got.Permits == 0 && got.RetryAfter > 0
		case "never":
			ok = !got.Allowed && got.RetryAfter == limits.Never
		case "full":
			ok = got.NextAfter == 0 && got.FullAfter == 0
		case "stands": // says how the key stands
			now := r.do(limits.Op{}, nil)
			ok = got.Remaining == now.Remaining && got.Which == now.Which
		case "left":
			ok = got.Remaining == number(next())
		case "of": // a limit
			ok = got.Limit == number(next())
		case "which": // of joined ones
			ok = int64(got.Which) == number(next())
		case "in": // exactly this time, until the permits can be used or taken
			passed := duration(next()) - got.Wait - got.RetryAfter
			ok = passed >= 0 && passed <= r.Slack
		case "soon": // within this time they can be taken
			ok = got.RetryAfter <= duration(next())+r.Slack
		case "later": // the next permit is available
			ok = got.NextAfter > duration(next())
		default: // the permits that were granted
			ok = got.Allowed && got.Permits == number(word)
		}
		require.True(r, ok, "%s: %+v", r.text, got)
	}
}

func number(text string) int64 { return core.Must(strconv.ParseInt(text, 10, 64)) }

func duration(text string) time.Duration { return core.Must(time.ParseDuration(text)) }

func limitOf(text string) (l ratelimit.Limit) {
	if err := l.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return l
}

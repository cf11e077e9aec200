package dash

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/registry"
	form "github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/pace"
)

// A batcher is a batch.Batcher of any type of records.
type batcher interface {
	Snapshot(ctx context.Context) (batch.Snapshot, error)
	Groups(ctx context.Context) ([]batch.GroupInfo, error)
	Flush(ctx context.Context, options ...string) error
	Pause(ctx context.Context, option string) error
	Resume(ctx context.Context, option string) error
	Delete(ctx context.Context, option string) (int, error)
	Retry(ctx context.Context, option string) (int, error)
}

// batchers shows the groups of outbound/batch: a row for each, and one for a batcher without groups.
func batchers() *section {
	return &section{
		kind: "batch", title: "Pending groups",
		columns: []column{
			{"method", "Method"},
			{"option", "Option"},
			{"state", "State"},
			{"pending", "Pending"},
			{"unique", "Unique"},
			{"bytes", "Bytes"},
			{"oldest", "Oldest"},
			{"last_flush", "Last flush"},
			{"next_flush", "Next flush"},
			{"in_flight", "In flight"},
			{"retrying", "Retrying"},
			{"failed", "Failed"},
			{"dropped", ""},
			{"calls_last_minute", "Calls in the last minute"},
			{"limits", "Limit"},
			{"paused", ""},
			{"last_error", "Last error"},
			{"last_error_at", ""},
		},
		reads: func(e registry.Entry) reader {
			b, ok := as[batcher](e.Instance)
			if !ok {
				return nil
			}
			return func(ctx context.Context, v view) ([]row, error) {
				snap, err := b.Snapshot(ctx)
				if err == nil && len(snap.Groups) == 0 {
					return []row{{cells: groupCells(&snap, &batch.GroupInfo{}, none(), v)}}, nil
				}
				rows := make([]row, len(snap.Groups))
				for i := range snap.Groups {
					rows[i] = group(&snap, &snap.Groups[i], v)
				}
				return rows, err
			}
		},
		plans: func(instance any) planner {
			b, ok := as[batcher](instance)
			if !ok {
				return nil
			}
			return func(ctx context.Context, verb, option string) (plan, error) { return groupPlan(ctx, b, verb, option) }
		},
	}
}

func group(snap *batch.Snapshot, g *batch.GroupInfo, v view) row {
	r := row{option: g.Option, volume: float64(g.Pending + g.InFlight + g.Retrying)}
	switch {
	case g.Failed > 0 || g.LastError != "" && g.Retrying > 0:
		r.rank = 2
	case g.Paused:
		r.rank = 1
	}
	r.fills = func() []cell { return groupCells(snap, g, text(g.Option), v) }
	if g.Pending > 0 {
		r.verbs = append(r.verbs, "flush")
	}
	if g.Paused {
		r.verbs = append(r.verbs, "resume")
	} else {
		r.verbs = append(r.verbs, "pause")
	}
	if g.Failed > 0 {
		r.verbs = append(r.verbs, "retry")
	}
	r.verbs = append(r.verbs, "delete")
	return r
}

func groupCells(snap *batch.Snapshot, g *batch.GroupInfo, option cell, v view) []cell {
	paused := cell{value: g.Paused}
	limits, words := rates(snap.Rates)
	lastError := failure(g.LastError, v.keys)
	if at := instant(g.LastErrorAt, v.now); g.LastError != "" && at.value != nil {
		lastError.Title, lastError.Text = strings.TrimSpace(at.Title+" "+lastError.Title), lastError.Text+" ("+at.Text+")"
	}
	return []cell{
		text(snap.Method), option, groupState(g), number(g.Pending), number(g.Unique), number(g.Bytes), instant(g.Oldest, v.now),
		instant(g.LastCall, v.now), instant(g.NextFlush, v.now), number(g.InFlight), number(g.Retrying), alarm(g.Failed), alarm(g.Dropped),
		number(snap.Calls),
		{Text: words, value: limits},
		paused, lastError, instant(g.LastErrorAt, v.now),
	}
}

func groupState(g *batch.GroupInfo) cell {
	switch {
	case g.Paused:
		return word("paused", "warn")
	case g.InFlight > 0:
		return word("sending", "ok")
	case g.Retrying > 0:
		return word("retrying", "warn")
	case g.Due:
		return word("due", "ok")
	case g.Pending > 0:
		return word("pending", "ok")
	case g.Failed > 0:
		return word("failed", "bad")
	}
	return word("empty", "")
}

// rates returns the limits of a vendor for JSON and as text.
func rates(limits []pace.Rate) (values []rate, words string) {
	values = []rate{}
	var all []string
	for _, r := range limits {
		values = append(values, rate{r.Calls, span(r.Per), r.Burst})
		all = append(all, fmt.Sprintf("%d per %s", r.Calls, form.Duration(r.Per)))
	}
	if len(all) == 0 {
		return values, unknown
	}
	return values, strings.Join(all, ", ")
}

// groupPlan looks for the group: a pause would make it.
func groupPlan(ctx context.Context, b batcher, verb, option string) (plan, error) {
	groups, err := b.Groups(ctx)
	if err != nil {
		return plan{}, err
	}
	at := slices.IndexFunc(groups, func(g batch.GroupInfo) bool { return g.Option == option })
	if at < 0 {
		return plan{}, errUnknown
	}
	g := &groups[at]
	switch verb {
	case "pause":
		return plan{-1, "", func(ctx context.Context) (int, error) { return -1, b.Pause(ctx, option) }}, nil
	case "resume":
		return plan{-1, "", func(ctx context.Context) (int, error) { return -1, b.Resume(ctx, option) }}, nil
	case "flush":
		return plan{g.Pending, "records", func(ctx context.Context) (int, error) { return g.Pending, b.Flush(ctx, option) }}, nil
	case "retry":
		return plan{g.Failed, "records", func(ctx context.Context) (int, error) { return b.Retry(ctx, option) }}, nil
	case "delete":
		return plan{g.Pending + g.Retrying + g.Failed, "records", func(ctx context.Context) (int, error) { return b.Delete(ctx, option) }}, nil
	}
	return plan{}, errVerb
}

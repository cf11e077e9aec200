package batch

import (
	"context"

	"github.com/gresil/gresil/internal/registry"
)

// rows returns a row for each group.
func (b *Batcher[T, R]) rows(ctx context.Context) ([]registry.Row, error) {
	snap, err := b.Snapshot(ctx)
	rows := make([]registry.Row, 0, len(snap.Groups))
	for i := range snap.Groups {
		g := &snap.Groups[i]
		r := registry.Row{Key: g.Option, Cells: []registry.Cell{
			{Name: "state", Value: g.state()},
			{Name: "pending", Value: g.Pending},
			{Name: "oldest", Value: g.Oldest},
			{Name: "last_call", Value: g.LastCall},
			{Name: "next_flush", Value: g.NextFlush},
			{Name: "in_flight", Value: g.InFlight},
			{Name: "retrying", Value: g.Retrying},
			{Name: "failed", Value: g.Failed},
			{Name: "dropped", Value: g.Dropped},
			{Name: "last_error", Value: g.LastError, Secret: true},
			{Name: "last_error_at", Value: g.LastErrorAt},
		}}
		if g.Pending > 0 {
			r.Verbs = append(r.Verbs, "flush")
		}
		if g.Paused {
			r.Alarm, r.Verbs = registry.Notice, append(r.Verbs, "resume")
		} else {
			r.Verbs = append(r.Verbs, "pause")
		}
		if g.Failed > 0 {
			r.Verbs = append(r.Verbs, "retry")
		}
		if g.Failed+g.Retrying > 0 {
			r.Alarm = registry.Failing
		}
		r.Verbs = append(r.Verbs, "delete")
		rows = append(rows, r)
	}
	return rows, err
}

func (g *GroupInfo) state() string {
	switch {
	case g.Paused:
		return "paused"
	case g.InFlight > 0:
		return "sending"
	case g.Retrying > 0:
		return "retrying"
	case g.Due:
		return "due"
	case g.Pending > 0:
		return "pending"
	case g.Failed > 0:
		return "failed"
	}
	return "empty"
}

// act does a verb of the row of an option.
func (b *Batcher[T, R]) act(ctx context.Context, verb, option string) (n int, err error) {
	switch verb {
	case "flush":
		return 1, b.Flush(ctx, option)
	case "pause":
		return 1, b.Pause(ctx, option)
	case "resume":
		return 1, b.Resume(ctx, option)
	case "retry":
		return b.Retry(ctx, option)
	default:
		return b.Delete(ctx, option)
	}
}

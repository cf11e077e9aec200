package core_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gresil/gresil/core"
)

// A mailer is a service of your own. In a Registry, metrics exports its figures, and logs its steps.
type mailer struct {
	sent    float64
	refused float64
	steps   func(context.Context, core.Step)
}

func (m *mailer) Figures() (figures []core.Figure, hookPanics uint64) {
	const help = "Mails by result."
	return []core.Figure{
		{Name: "mails_total", Help: help, Label: "result", Value: "sent", N: m.sent},
		{Name: "mails_total", Help: help, Label: "result", Value: "refused", N: m.refused},
	}, 0
}

func (m *mailer) ObserveSteps(calls bool, f func(context.Context, core.Step)) (cancel func()) {
	m.steps = func(ctx context.Context, s core.Step) {
		if calls || !s.Call {
			f(ctx, s)
		}
	}
	return func() { m.steps = nil }
}

func ExampleReporter() {
	registry, m := &core.Registry{}, &mailer{sent: 3, refused: 1}
	if err := registry.Add("mail", "invoices", m); err != nil {
		fmt.Println(err)
		return
	}
	for e := range registry.All() { // as package metrics does
		figures, _ := e.Instance.(core.Reporter).Figures()
		for _, f := range figures {
			fmt.Printf("%s_%s{name=%q,%s=%q} %v\n", e.Kind, f.Name, e.Name, f.Label, f.Value, f.N)
		}
	}
	cancel := m.ObserveSteps(false, func(_ context.Context, s core.Step) { fmt.Println(s.Text, s.Attrs, "warn:", s.Warn) })
	defer cancel()
	m.steps(context.Background(), core.Step{Text: "mail sent", Call: true})
	m.steps(context.Background(), core.Step{Text: "server refuses mail", Warn: true, Attrs: []slog.Attr{slog.Int("status", 421)}})
	// Output:
	// mail_mails_total{name="invoices",result="sent"} 3
	// mail_mails_total{name="invoices",result="refused"} 1
	// server refuses mail [status=421] warn: true
}

package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
)

// Running is a Run whose parts are called one by one.
type Running struct {
	r      *run
	cancel func()
}

// Begin begins as Run does.
func Begin(of *core.Registry, logger *slog.Logger, cfg Config) *Running {
	r := &run{logger: logger, cfg: cfg, subjects: map[any]*subject{}}
	return &Running{r, r.begin((*registry.Registry)(of))}
}

// Run waits as Run does.
func (r *Running) Run(ctx context.Context) error {
	r.r.wait(ctx)
	return nil
}

// Close ends as Run does.
func (r *Running) Close() error {
	r.cancel()
	r.r.end()
	return nil
}

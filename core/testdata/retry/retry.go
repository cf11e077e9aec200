// Package retry has the name of a package of this module, as one of a user can.
package retry

import (
	"context"

	"github.com/gresil/gresil/core"
)

// A Policy runs what is inside once.
type Policy struct{}

// Name returns "theirs".
func (Policy) Name() string { return "theirs" }

// Run runs what is inside.
func (Policy) Run(ctx context.Context, next core.Next) (any, error) { return next.Run(ctx) }

package main

import (
	"context"
	"errors"
	"time"
)

const (
	mostSlack = 50 * time.Millisecond // of a permit
	mostSkew  = 20 * time.Millisecond // of two calls on their way
)

// slack returns the shelf life of a permit: with skew, they cost at most 7 % of the calls of a minute.
func slack(minute time.Duration) time.Duration { return min(mostSlack, minute/20) }

func skew(minute time.Duration) time.Duration { return min(mostSkew, minute/50) }

func newGrouped(ctx context.Context, w *worker) (algorithm, error) {
	return algorithm{}, errors.New("not yet")
}

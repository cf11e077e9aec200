package redisbatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/blame"
)

// reasons are the texts before the errors of a server or a client, the first that applies.
//
//nolint:gochecknoglobals // a constant table
var reasons = [...]struct {
	is   func(error) bool
	text string
}{
	{isPool, "all connections of the client's pool are in use"},
	{isCanceled, "canceled"},
	{blame.Timeout, "no reply in time"},
	{isNotPrimary, "the server is a replica, or cut off from its replicas"},
	{redis.IsLoadingError, "the server is loading its data"},
	{redis.IsOOMError, "the server is out of memory"},
	{redis.IsAuthError, "the server wants another user or password"},
	{redis.IsPermissionError, "the server does not allow it to this user"},
	{isIncomplete, "the cluster is not complete"},
	{isForeign, "another program has written to a key of this method"},
	{isServerError, "the server failed"},
}

// explain adds the reason before the text of an error.
func explain(err error) error {
	for _, r := range reasons {
		if r.is(err) {
			return fmt.Errorf("redisbatch: %s: %w", r.text, err)
		}
	}
	return fmt.Errorf("redisbatch: the server cannot be reached: %w", err)
}

func isPool(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }

func isNotPrimary(err error) bool {
	return redis.IsReadOnlyError(err) || redis.IsNoReplicasError(err)
}

func isIncomplete(err error) bool {
	return redis.IsClusterDownError(err) || redis.IsMasterDownError(err) || redis.IsTryAgainError(err)
}

func isForeign(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

func isServerError(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

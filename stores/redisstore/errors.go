package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit/driver"
)

var (
	// ErrUnavailable is the error of decisions that are not sent, because several before them have failed
	// in a row.
	ErrUnavailable error = &driver.UnsentError{Err: errors.New("redisstore: the server is unavailable"), Unavailable: true}
	// ErrUnfit is matched by the error for a server that cannot be used at all, for example
	// because it is too old.
	ErrUnfit = errors.New("redisstore: the server cannot be used")

	errReply = errors.New("redisstore: a reply that no script of ours gives")
)

// failures is the number of failures in a row after which no decisions are sent.
const failures = 8

// newGuard makes the breaker for the server. Open, it lets one call through after 100ms; if that
// call fails, it doubles the delay, up to 2s. Jitter shortens each delay by up to half.
func newGuard() *breaker.Breaker {
	return core.Must(breaker.New(breaker.Config{
		Name: "redisstore", FailureRate: 1, Window: failures, Trials: 1, TrialTimeout: 10 * time.Second,
		OpenDelay: backoff.Exponential{Initial: 100 * time.Millisecond, Max: 2 * time.Second, Jitter: 0.5},
	}))
}

// outcomeOf returns the outcome of a request for the breaker: Ignored if the caller canceled it or
// no connection was free.
func outcomeOf(err error) core.Outcome {
	switch {
	case err == nil, redis.HasErrorPrefix(err, "WRONGTYPE"): // the server works; the value is not ours
		return core.Success
	case errors.Is(err, context.Canceled), noConnection(err):
		return core.Ignored
	}
	return core.Failure
}

// hasEnded reports whether a context is done, or its deadline is reached.
func hasEnded(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// unsent returns the error of a request that was not sent.
func unsent(err error) error { return &driver.UnsentError{Err: err} }

// explain adds the reason before the text of the server's error. It is unsent if the server has
// certainly not decided.
func explain(err error) error {
	reason, decided := "the server cannot be reached", false
	switch {
	case errors.Is(err, ErrUnfit):
		return unsent(err)
	case noConnection(err):
		reason = "all connections of the client's pool are in use"
	case isTimeout(err):
		reason, decided = "no reply in time", true
	case errors.Is(err, context.Canceled):
		reason, decided = "canceled", true
	case redis.IsReadOnlyError(err):
		reason = "the server is a replica, or cut off from its replicas"
	case redis.IsLoadingError(err):
		reason = "the server is loading its data"
	case redis.IsOOMError(err):
		reason = "the server is out of memory"
	case redis.IsAuthError(err):
		reason = "the server wants another user or password"
	case redis.IsPermissionError(err):
		reason = "the server does not allow it to this user"
	case redis.IsClusterDownError(err), redis.IsMasterDownError(err), redis.IsTryAgainError(err):
		reason = "the cluster is not complete"
	case moved(err):
		reason = "the server is one of a cluster, which needs a client for it"
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		reason = "another program has written to the key"
	case isServerError(err):
		reason, decided = "the server failed", true
	default:
		var op *net.OpError
		decided = !errors.As(err, &op) || op.Op != "dial"
	}
	if err = fmt.Errorf("redisstore: %s: %w", reason, err); decided {
		return err
	}
	return unsent(err)
}

// noConnection reports whether all connections of the client were in use.
func noConnection(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

func moved(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask
}

// isServerError reports whether an error is a reply of the server.
func isServerError(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

// transient reports whether the same command might get another reply soon.
func transient(err error) bool {
	return redis.IsLoadingError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) || redis.IsTryAgainError(err) ||
		redis.IsMaxClientsError(err) || redis.IsAuthError(err)
}

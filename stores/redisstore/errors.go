package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/limits"
)

var (
	// ErrUnavailable is matched by the error of a decision that was not sent because several in a row had failed.
	ErrUnavailable = limits.Unsent(errors.New("redisstore: the server is unavailable"), true)
	// ErrUnfit is matched by the error of [Store.Check] for a server that cannot be used at all, because it is too old.
	ErrUnfit = errors.New("redisstore: the server cannot be used")

	errReply = errors.New("redisstore: unexpected reply from a script")
)

// failures is the number of failures in a row after which decisions are no longer sent.
const failures = 8

// newGuard makes the breaker for the server. When open, it lets one call through after 100ms. If that call fails, it
// doubles the delay, up to 500ms: finding a new primary can take two trials, the first of which makes the connection.
// Jitter shortens each delay by up to half.
func newGuard() *breaker.Breaker {
	return core.Must(breaker.New(breaker.Config{
		Name: "redisstore", Failures: failures, FailureRate: -1, Trials: 1, MaxHalfOpen: 10 * time.Second,
		OpenDelay: backoff.Exponential{Delay: 100 * time.Millisecond, Max: 500 * time.Millisecond, Jitter: 0.5},
	}))
}

// outcomeOf returns the outcome of a request for the breaker. It is Ignored if the caller canceled the request, or no
// connection was free.
func outcomeOf(err error) core.Outcome {
	switch {
	case err == nil, foreignValue(err): // the server works; another program wrote the value
		return core.Success
	case isCanceled(err), noConnection(err):
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
func unsent(err error) error { return limits.Unsent(err, false) }

// reasons are the texts that are put before errors of a server or a client; the first that applies is used. decided is
// true if the server might have decided.
//
//nolint:gochecknoglobals // a constant table
var reasons = [...]struct {
	is      func(error) bool
	text    string
	decided bool
}{
	{noConnection, "all connections of the client's pool are in use", false},
	{blame.Timeout, "no reply in time", true},
	{isCanceled, "canceled", true},
	{notPrimary, "the server is a replica, or cut off from its replicas", false},
	{redis.IsLoadingError, "the server is loading its data", false},
	{redis.IsOOMError, "the server is out of memory", false},
	{redis.IsAuthError, "the server refuses the user or password", false},
	{redis.IsPermissionError, "this user lacks a permission on the server", false},
	{incomplete, "the cluster is not complete", false},
	{moved, "the server belongs to a cluster, which needs a redis.ClusterClient", false},
	{foreignValue, "another program has written to the key", false},
	{forbiddenInScript, "this user lacks a permission on the server", true},
	{isServerError, "the server failed", true},
}

// explain adds the reason before the text of an error. If the server has certainly not decided, because nothing was
// written or the reply says so, the result matches as unsent.
func explain(err error, written bool) error {
	for _, r := range reasons {
		if r.is(err) {
			if err = fmt.Errorf("redisstore: %s: %w", r.text, err); r.decided && written {
				return err
			}
			return unsent(err)
		}
	}
	if err = fmt.Errorf("redisstore: the server cannot be reached: %w", err); written {
		return err
	}
	return unsent(err)
}

// notPrimary reports whether the server accepts no writes.
func notPrimary(err error) bool { return redis.IsReadOnlyError(err) || redis.IsNoReplicasError(err) }

func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }

// A foreignError is the error for the key of a value that account could not read.
type foreignError string

func (k foreignError) Error() string {
	return "WRONGTYPE " + string(k) + " holds a value that is none of a limit"
}

// RedisError marks an error of the server.
func (foreignError) RedisError() {}

// foreignValue reports whether the script could not read the value of the key.
func foreignValue(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// forbiddenInScript reports whether the user is not allowed to send a command of the script.
func forbiddenInScript(err error) bool {
	return redis.HasErrorPrefix(err, "The user executing the script")
}

// incomplete reports whether a Cluster has no server for the key at the moment.
func incomplete(err error) bool {
	return redis.IsClusterDownError(err) || redis.IsMasterDownError(err) || redis.IsTryAgainError(err)
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
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// transient reports whether the same command might get another reply soon.
func transient(err error) bool {
	return redis.IsLoadingError(err) || incomplete(err) ||
		redis.IsMaxClientsError(err) || redis.IsAuthError(err)
}

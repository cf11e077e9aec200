package retry_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// A list is an error that == cannot compare, as those of go/scanner and of many
// validators.
type list []string

func (l list) Error() string { return l[0] }

func TestAnErrorThatCannotBeComparedIsReturned(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]retry.Config{
		"exhausted":   {Backoff: backoff.Constant{}},
		"not retried": {RetryIf: func(error) bool { return false }},
		"one attempt": {MaxAttempts: 1},
	} {
		p, err := retry.New(cfg)
		require.NoError(t, err)
		_, err = retry.Do(context.Background(), p, func(context.Context) (int, error) { return 0, list{"invalid"} })
		var got list
		require.ErrorAs(t, err, &got, name)
	}
}

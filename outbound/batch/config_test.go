package batch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

// A level has no text if it is zero.
type level int

func (l level) MarshalText() ([]byte, error) {
	if l == 0 {
		return nil, errNo
	}
	return []byte("high"), nil
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	send := func(context.Context, string, []record) ([]result, error) { return nil, nil }
	require.NoError(t, config{Name: "x", Send: send}.Validate())
	for field, cfg := range map[string]config{
		"Name":                   {Send: send},
		"Send":                   {Name: "x"},
		"Engine":                 {Name: "x", Send: send, Engine: new(jobs.Engine)},
		"GateCall":               {Name: "x", Send: send, GateCall: func(string, []record) gate.Call { return gate.Call{} }},
		"MaxRecords":             {Name: "x", Send: send, MaxRecords: 100_001},
		"MaxBytes":               {Name: "x", Send: send, MaxBytes: -1},
		"FlushAfter":             {Name: "x", Send: send, FlushAfter: 32 * 24 * time.Hour},
		"FlushSize":              {Name: "x", Send: send, FlushSize: -1},
		"Concurrency":            {Name: "x", Send: send, Concurrency: -1},
		"Timeout":                {Name: "x", Send: send, Timeout: -1},
		"Backoff.Constant.Delay": {Name: "x", Send: send, Backoff: backoff.Constant{Delay: -1}},
		"MaxAttempts":            {Name: "x", Send: send, MaxAttempts: -1},
		"MaxDeliveries":          {Name: "x", Send: send, MaxDeliveries: -1},
		"MaxPending":             {Name: "x", Send: send, MaxPending: -1},
	} {
		err := cfg.Validate()
		require.ErrorIs(t, err, core.ErrConfig)
		require.ErrorContains(t, err, "batch.Config."+field+" = ")
		require.NotContains(t, err.Error(), "\n")
		_, errNew := batch.New(cfg)
		require.Equal(t, err, errNew)
	}
	for _, name := range []string{" ", "{x}", "a\nb", "\xff", strings.Repeat("x", 191)} {
		require.ErrorContains(t, config{Name: name, Send: send}.Validate(), "batch.Config.Name")
	}
	bad := batch.Config[chan int, func()]{Name: "x", Send: func(context.Context, string, []chan int) ([]batch.Result[func()], error) { return nil, nil }}
	require.ErrorContains(t, bad.Validate(), "must have types that can be encoded as JSON")
	require.NoError(t, batch.Config[struct{ L level }, level]{
		Name: "x", Send: func(context.Context, string, []struct{ L level }) ([]batch.Result[level], error) { return nil, nil },
	}.Validate())

	var r core.Registry
	core.Must(batch.New(config{Name: "x", Send: send, Registry: &r}))
	_, err := batch.New(config{Name: "x", Send: send, Registry: &r})
	require.ErrorContains(t, err, "is already registered as batch")
}

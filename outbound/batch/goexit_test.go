package batch_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/batch"
)

func quit(context.Context, batch.Info) { runtime.Goexit() }

func quittingHooks() batch.Hooks {
	return batch.Hooks{Called: quit, Redelivered: quit, Failed: quit, StoreFailed: quit, StoreRecovered: quit}
}

// failsAt returns a store whose operation fails once.
func failsAt(operation string) *proxy {
	var failed atomic.Bool
	return &proxy{Store: batch.NewMemory(), before: func(op string) error {
		if op == operation && failed.CompareAndSwap(false, true) {
			return errors.New("down")
		}
		return nil
	}}
}

func TestAHookThatEndsItsGoroutineSettlesItsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		v.answer = func(n int, c call[int]) ([]batch.Result[string], error) {
			if n == 0 {
				return nil, core.Permanent(errors.New("no"))
			}
			return make([]batch.Result[string], len(c.records)), nil
		}
		b := start(t, batch.Config[int, string]{Send: v.send, Hooks: quittingHooks()})
		add(t, b, 1, 2)
		time.Sleep(time.Hour)
		require.Len(t, v.seen(), 3)
		require.EqualValues(t, 2, b.Stats().Sent)
		drain(t, b)
	})
}

func TestAHookThatEndsItsGoroutineDoesNotEndTheReceiving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, batch.Config[int, string]{Send: newVendor[int]().send, Store: failsAt("Receive"), Hooks: quittingHooks()})
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			_, err := b.Call(ctx, 1)
			cancel()
			require.NoError(t, err)
		}
		drain(t, b)
	})
}

func TestAHookThatEndsItsGoroutineDoesNotEndTheRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		v.latency = 10 * time.Minute
		store := failsAt("Extend")
		cfg := batch.Config[int, string]{Method: "m", Send: v.send, Store: store, Timeout: time.Hour, Hooks: quittingHooks()}
		a, b := start(t, cfg), start(t, cfg)
		add(t, a, 1)
		time.Sleep(time.Hour)
		require.Len(t, v.seen(), 1)
		drain(t, a)
		drain(t, b)
	})
}

func TestAHookThatEndsItsGoroutineDoesNotEndRun(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*batch.Config[int, string]){
		"ready": func(cfg *batch.Config[int, string]) { cfg.Store = failsAt("Ready") },
		"lease": func(cfg *batch.Config[int, string]) { cfg.Store = failsAt("Lease") },
		"redelivered": func(cfg *batch.Config[int, string]) {
			var leases atomic.Int64
			cfg.Store = &proxy{Store: batch.NewMemory(), after: func(operation string) error {
				if operation == "Lease" && leases.Add(1) == 1 {
					time.Sleep(time.Minute) // longer than the lease
				}
				return nil
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := newVendor[int]()
				cfg := batch.Config[int, string]{Send: v.send, Hooks: quittingHooks()}
				prepare(&cfg)
				b := start(t, cfg)
				add(t, b, 1)
				time.Sleep(time.Hour)
				require.Len(t, v.seen(), 1)
				require.EqualValues(t, 1, b.Stats().Sent)
				drain(t, b)
			})
		})
	}
}

func TestRunReturnsTheErrorOfItsPacerAfterAHookThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, 1)
		b, err := batch.New(batch.Config[int, string]{Send: newVendor[int]().send, Pacer: p, FlushSize: 1, Hooks: quittingHooks()})
		require.NoError(t, err)
		require.NoError(t, p.Close())
		add(t, b, 1)
		ended := make(chan error, 1)
		go func() { ended <- b.Run(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-ended:
			require.ErrorContains(t, err, "pace: closed")
		default:
			t.Error("Run has not returned")
		}
	})
}

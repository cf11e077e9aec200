package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
)

func openMemory(t *testing.T) ratelimit.Store {
	t.Helper()
	m, err := ratelimit.NewMemory(0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, ratelimittest.Harness{Open: openMemory, Bubble: synctest.Test})
}

func TestMemoryConformsBehindASlowLink(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, ratelimittest.Harness{
		Open: func(t *testing.T) ratelimit.Store {
			t.Helper()
			return &ratelimittest.Slow{Store: openMemory(t), Delay: time.Millisecond}
		},
		Bubble: synctest.Test,
		Unit:   time.Minute,
		Slack:  time.Second,
	})
}

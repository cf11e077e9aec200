package gate_test

import (
	"context"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
)

func TestReserve(t *testing.T) {
	t.Parallel()
	cfg := gate.Config{Limits: []gate.Limit{{Name: "all", N: 1000, Per: time.Second}, {Name: "dish", N: 6, Per: time.Minute, Key: gate.ByCall}}, MaxWait: time.Minute}
	const slot = (time.Minute + 50*time.Millisecond + 5) / 6
	dish := func(name string) gate.Call { return gate.Call{Keys: map[string]string{"dish": name}} }
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		start := time.Now()
		var permits []*gate.Permit
		for i := range 6 {
			p, err := g.Reserve(t.Context(), dish("north"))
			require.NoError(t, err)
			require.Equal(t, time.Duration(i)*slot, p.At.Sub(start).Truncate(time.Millisecond).Round(slot))
			permits = append(permits, p)
		}
		_, err := g.Reserve(t.Context(), dish("north"))
		require.ErrorIs(t, err, gate.ErrLimited)
		wait, _ := core.RetryAfter(err)
		require.Equal(t, 6*slot, wait)
		south, err := g.Reserve(t.Context(), dish("south"))
		require.NoError(t, err)
		require.Less(t, south.At.Sub(start), 10*time.Millisecond, "the limit of all is not blocked by what is far ahead")
		south.Cancel()
		permits[2].Cancel()
		again, err := g.Reserve(t.Context(), dish("north"))
		require.NoError(t, err)
		require.Equal(t, permits[2].At, again.At, "a slot that was given back")
		require.NoError(t, again.Wait(t.Context()))
		require.Equal(t, again.At, time.Now())
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, again.Wait(t.Context()))
		require.Equal(t, again.At.Add(10*time.Millisecond), time.Now(), "it is good")
		again.Done(nil)
		again.Done(nil)
		again.Cancel()
		require.EqualValues(t, 1, g.Stats().Sent)
		require.ErrorIs(t, again.Wait(t.Context()), context.Canceled)
		require.NoError(t, permits[3].Wait(t.Context()))
		permits[3].Done(nil)
		time.Sleep(time.Until(permits[4].At) + 26*time.Millisecond)
		require.NoError(t, permits[4].Wait(t.Context()))
		require.Equal(t, 6*slot, time.Since(start), "its own slot was too old")
		permits[4].Done(nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = g.Reserve(ctx, dish("north"))
		require.ErrorIs(t, err, context.Canceled)
		for _, p := range permits {
			p.Cancel()
		}
	})
}

// Reserve gives slots during a hold too, and its permits take no places.
func TestReserveDuringHold(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, gate.Config{InFlight: 1, Limits: perSecond(10)}, func(t tester, g *gate.Gate) {
		p, err := g.Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0), "the permit has no place")
		require.Less(t, time.Since(start), time.Second)
		p.Cancel()
		refused(t, g, gate.Call{}, 0, 5*time.Second)
		time.Sleep(100 * time.Millisecond)
		p, err = g.Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		require.Greater(t, time.Until(p.At), 4*time.Second)
		p.Cancel()
	})
}

// The slot of a permit is enough: its Wait does not need another one, and does not wait behind calls that do.
func TestSlotOfPermit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		maxWait time.Duration
		waiting int // calls
		late    time.Duration
	}{
		"MaxWait":         {maxWait: 30 * time.Second},
		"no wait":         {maxWait: -1},
		"queue":           {waiting: 100},
		"queue, and late": {waiting: 100, late: 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{Limits: []gate.Limit{{N: 1, Per: time.Minute}}, MaxWait: row.maxWait}, func(t tester, g *gate.Gate) {
				ctx, cancel := context.WithCancel(t.Context())
				for range row.waiting {
					go func() { _ = do(ctx, g, gate.Call{}, 0) }()
				}
				synctest.Wait()
				p, err := g.Reserve(t.Context(), gate.Call{})
				require.NoError(t, err)
				time.Sleep(time.Until(p.At) + row.late)
				start := time.Now()
				soon, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				require.NoError(t, p.Wait(soon))
				require.Zero(t, time.Since(start))
				p.Done(nil)
				cancel()
				synctest.Wait()
			})
		})
	}
}

// The slots of permits that are canceled can be used at once, also by calls that wait.
func TestCanceledPermits(t *testing.T) {
	t.Parallel()
	const slot = (time.Minute + 50*time.Millisecond + 5) / 6
	for name, row := range map[string]struct {
		cancel []int // of six permits
		want   time.Duration
	}{"all": {[]int{5, 4, 3, 2, 1, 0}, 0}, "one": {[]int{2}, 2 * slot}, "none": {nil, 6 * slot}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{Limits: []gate.Limit{{N: 6, Per: time.Minute}}}, func(t tester, g *gate.Gate) {
				var permits []*gate.Permit
				for range 6 {
					p, err := g.Reserve(t.Context(), gate.Call{})
					require.NoError(t, err)
					permits = append(permits, p)
				}
				for _, i := range row.cancel {
					permits[i].Cancel()
				}
				start := time.Now()
				require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
				require.Equal(t, row.want, time.Since(start))
				for _, p := range permits {
					p.Cancel()
				}
			})
		})
	}
}

// Permits count as calls that wait. A function whose response was read does not.
func TestReserveOfFullQueue(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{MaxQueue: 1}, func(t tester, g *gate.Gate) {
		var sent []string
		rt := g.Transport(answers(&sent, "200"))
		require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
			require.NoError(t, get(ctx, rt))
			p, err := g.Reserve(ctx, gate.Call{})
			require.NoError(t, err)
			_, err = g.Reserve(ctx, gate.Call{})
			require.ErrorIs(t, err, gate.ErrFull)
			p.Cancel()
			return nil
		}))
	})
}

// Done classifies what Do does: every error but those of a context and rejections.
func TestDoneClassifies(t *testing.T) {
	t.Parallel()
	for want, errs := range map[int][]error{
		1: {refusal{time.Minute}, &url.Error{Op: "Get", URL: "http://vendor.test/", Err: refusal{time.Minute}}},
		0: {nil, context.Canceled, context.DeadlineExceeded, core.ErrRejected, &url.Error{Err: context.DeadlineExceeded}},
	} {
		for _, err := range errs {
			bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
				p, e := g.Wait(t.Context(), gate.Call{})
				require.NoError(t, e)
				p.Done(err)
				require.Len(t, g.Holds(), want, "%v", err)
			})
		}
	}
}

// A hold that begins after a permit was given delays its next Wait.
func TestPermitUnderHold(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{InFlight: 2}, func(t tester, g *gate.Gate) {
		p, err := g.Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		refused(t, g, gate.Call{}, 0, time.Minute)
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), 59*time.Second)
		p.Done(refusal{time.Minute})
		require.ErrorIs(t, p.Wait(t.Context()), context.Canceled)
	})
}

// Close does not wait for the time of a permit.
func TestClosePermit(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: []gate.Limit{{N: 1, Per: time.Hour}}}, func(t tester, g *gate.Gate) {
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
		p, err := g.Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { _ = g.Close(ctx) }()
		require.ErrorIs(t, p.Wait(t.Context()), gate.ErrClosed)
		require.Equal(t, time.Minute, time.Since(start))
		p.Cancel()
	})
}

// A slot that was given back before the limit was lowered is not given again.
func TestSpareSlotOfFormerLimit(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: perSecond(10)}, func(t tester, g *gate.Gate) {
		var permits []*gate.Permit
		for range 3 {
			p, err := g.Reserve(t.Context(), gate.Call{})
			require.NoError(t, err)
			permits = append(permits, p)
		}
		permits[1].Cancel()
		require.NoError(t, g.SetConfig(gate.Config{Limits: perSecond(1)}))
		p, err := g.Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		require.Greater(t, p.At.Sub(permits[2].At), time.Second)
		for _, p := range append(permits, p) {
			p.Cancel()
		}
	})
}

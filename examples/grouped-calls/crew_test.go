package main

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// hear handles lines of a worker, until one is an error.
func hear(c *crew, lines ...string) error {
	for _, line := range lines {
		if err := c.handle(event{from: &member{number: 1}, line: line}); err != nil {
			return err
		}
	}
	return nil
}

func newCrew(records int) *crew {
	return &crew{order: order{Records: records, Workers: 2}, keys: map[string]struct{}{}, stderr: io.Discard}
}

func TestRecordsOfACallThatIsMadeAgainCountOnce(t *testing.T) {
	t.Parallel()
	c := newCrew(10)
	require.NoError(t, hear(c, "called 1", "served 4 a", "called 1", "served 4 a", "failed 1 too long a name", "failed 1 other"))
	require.False(t, c.finished())
	require.NoError(t, hear(c, "served 4 b", "stats 7", "stats 5"))
	require.True(t, c.finished())
	require.Equal(t, [3]int{2, 8, 2}, [3]int{c.calls, c.served, c.failed})
	require.Equal(t, "too long a name", c.first)
	require.Equal(t, 7*time.Nanosecond, c.stall)
}

func TestManyWrongCallsInARowEndTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(10)
		c.right = time.Now()
		for n := range 100 {
			time.Sleep(time.Second)
			require.NoError(t, hear(c, fmt.Sprintf("wrong 1 of %d", n), "refused 1", fmt.Sprintf("wrong 1 of %d", n), "called 1"))
		}
		for range 50 * silence {
			require.NoError(t, hear(c, "wrong 1 again"))
		}
		time.Sleep(silenceTime + 1)
		require.EqualError(t, hear(c, "wrong 1 again"), "stopped: 1001 calls in a row failed")
		require.Equal(t, "of 0", c.first)
		require.Equal(t, 100, c.refused)
	})
}

func TestALineThatNoWorkerWritesIsAnError(t *testing.T) {
	t.Parallel()
	require.EqualError(t, hear(newCrew(1), "panic: x"), `process 1 wrote "panic: x"`)
}

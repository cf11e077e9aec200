package demo

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A counter is a task that counts the lines.
type counter struct{ heard []string }

func (*counter) Order(*Member) any              { return nil }
func (*counter) Feed(*Member) string            { return "" }
func (*counter) Fold(*Member) bool              { return true }
func (c *counter) Progress() (int, int, string) { return len(c.heard), 100, "" }
func (c *counter) Hear(_ *Member, w string, n int, rest string) {
	c.heard = append(c.heard, fmt.Sprint(w, n, rest))
}

func TestLinesOfWorker(t *testing.T) {
	t.Parallel()
	task := &counter{}
	c := &Crew{Task: task, Screen: NewScreen(io.Discard)}
	m := &Member{process: &process{name: "worker 1"}}
	for _, line := range []string{"stall 7", "done 1", "stall 5", "failed 2 for a reason"} {
		require.NoError(t, c.hear(m, line))
	}
	require.Equal(t, []string{"done1", "failed2for a reason"}, task.heard)
	require.Equal(t, 7*time.Nanosecond, c.Stall)
	require.EqualError(t, c.hear(m, "panic: x"), `worker 1 wrote "panic: x"`)
}

func TestManyWrongCallsEndRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Crew{Task: &counter{}, Silence: 5 * time.Second, right: time.Now()}
		m := &Member{}
		for n := range 100 {
			time.Sleep(time.Second)
			c.Wrong(fmt.Sprint("of ", n))
			require.NoError(t, c.hear(m, "x 1"))
			c.Right()
		}
		for range 50 * silence {
			c.Wrong("again")
			require.NoError(t, c.hear(m, "x 1"))
		}
		time.Sleep(5*time.Second + 1)
		require.EqualError(t, c.hear(m, "x 1"), "stopped: 1000 calls in a row failed")
		require.Equal(t, "of 0", c.First)
	})
}

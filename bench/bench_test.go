package bench

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// few is enough to see whether the work of a row is done.
func few() Sizes {
	return Sizes{Many: 50, Million: 200, Upload: 1 << 20, Load: 10 * time.Millisecond}
}

//nolint:paralleltest,tparallel // what else runs frees memory while a row measures it
func TestEverySubjectDoesTheWorkOfItsRow(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Rows(few()) {
		require.False(t, names[r.Name], "%s: there are two rows of this name", r.Name)
		names[r.Name] = true
		t.Run(r.Name, func(t *testing.T) {
			ours := 0
			for _, s := range r.Subjects {
				if s.Role == Ours {
					ours++
				}
				require.True(t, r.Units == nil && s.Make != nil || r.Units != nil && s.Sample != nil, s.Name)
			}
			require.LessOrEqual(t, ours, 1, "there is one that is ours, or none among the floors")
			measured, err := Measure(r, Plan{Rounds: 2, Turns: 1, Turn: 10 * time.Microsecond, Samples: 1})
			require.NoError(t, err)
			for _, res := range Results(r, measured) {
				if ours == 1 {
					require.NotNil(t, res.OursNs, res.Row)
				}
				require.Equal(t, res.BestPeer == nil, res.Ratio == nil || ours == 0, res.Row)
			}
		})
	}
}

func TestAWrongOutcomeIsAnError(t *testing.T) {
	t.Parallel()
	calls := 0
	row := Row{Name: "row", Subjects: []Subject{
		peer("right", func() Work { return work(func(string) bool { return true }) }),
		peer("wrong", func() Work { return work(func(string) bool { calls++; return calls < 100 }) }),
	}}
	_, err := Measure(row, Plan{Rounds: 1, Turns: 1, Turn: time.Millisecond})
	require.EqualError(t, err, "row: wrong: an operation came out wrong")
	row.Units, row.Subjects = []Unit{{Name: "B"}}, []Subject{{Name: "wrong", Sample: func() ([]float64, error) { return nil, errOutcome }}}
	_, err = Measure(row, Plan{Samples: 1})
	require.ErrorIs(t, err, errOutcome)
}

func TestKeysAreAllThereAndTheSameForEverybody(t *testing.T) {
	t.Parallel()
	r := Row{Keys: 100}
	keys := r.keys()
	require.Len(t, keys, 128)
	require.Equal(t, keys, r.keys())
	different := map[string]bool{}
	for _, k := range keys {
		different[k] = true
	}
	require.Len(t, different, 100)
	require.Equal(t, []string{"10.0.0.0"}, Row{}.keys())
}

func TestFloorTable(t *testing.T) {
	t.Parallel()
	table := newFloorTable(2, taking{refused: true})
	for _, key := range []string{"a", "b"} {
		require.True(t, table.take(key, 1))
		require.False(t, table.take(key, 1))
	}
}

func TestTypical(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{4, 1}, 2.5},
		{[]float64{9, 1, 5}, 5},
		{[]float64{1000, 3, 2, 1}, 2.5},
		{[]float64{1, 1000, 2, 3, 4}, 3},
		{[]float64{5, 900, 4, 3, 1000, 2, 1}, 4},
	} {
		require.InDelta(t, tt.want, typical(tt.values), 0, "typical(%v)", tt.values)
	}
}

func TestTurnsThatOthersDisturbedDoNotCount(t *testing.T) {
	t.Parallel()
	calm, disturbed := turn{cpu: 10, wall: 5}, turn{cpu: 4, wall: 4, aside: 7} // the latter one goroutine after the other
	r := runner{turns: []turn{disturbed, calm, disturbed, calm, calm}}
	got := r.measured(Subject{}, 2)
	require.InDelta(t, 10, got.CPU[0], 0)
	require.InDelta(t, 5, got.Wall, 0)
	require.False(t, got.Crowded)

	r.turns = []turn{disturbed, disturbed, disturbed, calm}
	require.True(t, r.measured(Subject{}, 2).Crowded)
}

func TestSamplesThatDifferAreDisturbed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   bool
	}{
		{nil, false},
		{[]float64{0, 0, 0, 0, 0}, false},
		{[]float64{5, 900, 4, 3, 1000}, true},
		{[]float64{100, 106, 120, 190, 1}, false},
		{[]float64{100, 900, 120, 190, 180}, false}, // one of five says nothing
		{[]float64{100, 201, 203, 101, 500}, true},
	} {
		require.Equal(t, tt.want, differ(tt.values), "differ(%v)", tt.values)
	}
	calm, aside := turn{cpu: 10, wall: 10, aside: 3}, turn{cpu: 7, wall: 10, aside: 1}
	idle := turn{cpu: 1, wall: 10} // it waited, but not for a processor
	require.False(t, crowded([]turn{calm, aside, idle}, 1))
	require.True(t, crowded([]turn{calm, aside, aside}, 1))
	require.False(t, crowded(nil, 1))
}

// TestARowOfUnitsSaysThatItWasDisturbed: the ratio of the unit whose samples differ.
func TestARowOfUnitsSaysThatItWasDisturbed(t *testing.T) {
	t.Parallel()
	samples := []float64{1, 500, 2, 400, 3}
	n := 0
	row := Row{Name: "row", Units: []Unit{{Name: "steady"}, {Name: "jumps"}, {Name: "least", Least: true}}, Subjects: []Subject{
		{Name: "ours", Role: Ours, Sample: func() ([]float64, error) { n++; return []float64{7, samples[n-1], samples[n-1]}, nil }},
		{Name: "peer", Role: Peer, Sample: func() ([]float64, error) { return []float64{7, 7, 7}, nil }},
	}}
	measured, err := Measure(row, Plan{Samples: len(samples)})
	require.NoError(t, err)
	for i := range measured { // the machine that runs the test can be busy
		if measured[i].Crowded {
			measured[i].Disturbed = []bool{false, measured[i].Role == Ours, false}
		}
	}
	results := Results(row, measured)
	require.Equal(t, []bool{false, true, false}, []bool{results[0].Disturbed, results[1].Disturbed, results[2].Disturbed})
	var table bytes.Buffer
	WriteTable(&table, results)
	require.Regexp(t, `\| row \[jumps\] .* \| \d+\.?\d*\? \|`, table.String())
	require.NotRegexp(t, `\| row \[steady\] .*\?`, table.String())
	require.Contains(t, table.String(), "\n?: disturbed, also when measured again.")
	text, err := json.Marshal(results[:2])
	require.NoError(t, err)
	require.Regexp(t, `^\[\{[^}]*"ratio":1\},\{[^}]*"disturbed":true\}\]$`, string(text))
}

// measurement is what a subject did in a row of one value.
func measurement(role Role, name, note string, ns, allocs float64) Measurement {
	return Measurement{Subject: Subject{Name: name, Note: note, Role: role}, CPU: []float64{ns}, Wall: ns, Allocs: allocs}
}

func TestResults(t *testing.T) {
	t.Parallel()
	measured := []Measurement{
		measurement(Peer, "slow", "", 200, 3),
		measurement(Ours, "ours", "", 50, 0),
		measurement(Peer, "different", "does less", 10, 0),
		measurement(Peer, "best", "", 100, 2),
		measurement(Floor, "floor", "", 5, 0),
		measurement(Floor, "lower floor", "", 1, 0),
	}
	results := Results(Row{Name: "row"}, measured)
	require.Len(t, results, 1)
	require.InDelta(t, 0.5, *results[0].Ratio, 1e-9)
	var table bytes.Buffer
	WriteTable(&table, results)
	require.Contains(t, table.String(), "| row | 50 | 0 | best | 100 | 2 | 5 | 0.50 | 10 | – | lower floor 1; different* 10; slow 200 (3) |\n")

	text, err := json.Marshal(results)
	require.NoError(t, err)
	require.JSONEq(t, `[{"row":"row","ours_ns":50,"ours_allocs":0,"best_peer":"best","best_peer_ns":100,"best_peer_allocs":2,"floor_ns":5,"ratio":0.5}]`, string(text))

	text, err = json.Marshal(Results(Row{Name: "row"}, measured[1:3])) // no peer does the same work
	require.NoError(t, err)
	require.JSONEq(t, `[{"row":"row","ours_ns":50,"ours_allocs":0,"best_peer":null,"best_peer_ns":null,"best_peer_allocs":null,"floor_ns":null,"ratio":null}]`, string(text))

	text, err = json.Marshal(Results(Row{Name: "row", Units: []Unit{{Name: "x/s", Higher: true}}}, measured))
	require.NoError(t, err)
	require.JSONEq(t, `[{"row":"row [x/s]","ours_ns":50,"ours_allocs":null,"best_peer":"slow","best_peer_ns":200,"best_peer_allocs":null,"floor_ns":5,"ratio":4}]`, string(text))
}

func TestNothingComparedToNothingIsNoWorse(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 1.0, *quotient(0, 0), 0)
	require.InDelta(t, 3.0, *quotient(2, 0), 0)
}

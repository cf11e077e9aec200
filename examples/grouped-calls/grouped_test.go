package main

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnUnknownOptionIsRejected(t *testing.T) {
	t.Parallel()
	w := &worker{order: order{Options: 2, Records: 1, MaxRecords: 1, CallsPerMinute: 1, Scale: 60, Workers: 1}, out: io.Discard}
	w.remote = newRemote(w)
	g, err := newGrouped(t.Context(), w)
	require.NoError(t, err)
	r := newRecord("run", 0, 2)
	require.NoError(t, g.addOne(t.Context(), r))
	r.option = "list-1:delete"
	require.EqualError(t, g.addOne(t.Context(), r), `unknown option "list-1:delete": it must be one of the predefined ones, such as "list-1:upsert"`)
}

// TestARecordThatIsNotAccepted: the others of its call are.
func TestARecordThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	f := foreign{merge: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[{"ok":true},{"ok":false,"error":"no such contact"},{"ok":true}]}`)
	}}
	r := runJSON(t.Context(), t, "-options 1 -records 3 -processes 1 -scale 60 -vendor %s", f.start(t))
	require.Equal(t, 1, r.Code, r)
	require.Equal(t, [4]int{2, 1, 0, 1}, [4]int{r.Served, r.Failed, r.Lost, r.Calls})
	require.Equal(t, "1 of 3 records were not served; 1 failed, the first error: no such contact", r.Problem)
	require.Len(t, f.seen, 1)
}

// TestALongError: the start of it is enough.
func TestALongError(t *testing.T) {
	t.Parallel()
	f := foreign{merge: func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("é\n", 100_000), http.StatusBadRequest)
	}}
	r := runJSON(t.Context(), t, "-options 1 -records 1 -processes 1 -scale 60 -vendor %s", f.start(t))
	require.Equal(t, 1, r.Code, r)
	require.Contains(t, r.Problem, "1 of 1 records were not served; 1 failed, the first error: the vendor rejects the call: é é é")
	require.Less(t, len(r.Problem), 1200)
}

// TestARecordThatTheVendorCannotRead: it is isolated by calls with halves of the records.
func TestARecordThatTheVendorCannotRead(t *testing.T) {
	t.Parallel()
	f := foreign{}
	f.merge = func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		records := f.seen[len(f.seen)-1].body.Records
		f.mu.Unlock()
		if slices.ContainsFunc(records, func(r map[string]any) bool { return r["number"] == 11.0 }) {
			http.Error(w, "malformed", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, results(len(records)))
	}
	r := runJSON(t.Context(), t, "-options 1 -records 16 -max-records 16 -processes 1 -scale 600 -vendor %s", f.start(t))
	require.Equal(t, 1, r.Code, r)
	require.Equal(t, [3]int{15, 1, 0}, [3]int{r.Served, r.Failed, r.Lost})
	require.Equal(t, "1 of 16 records were not served; 1 failed, the first error: the vendor rejects the call: malformed", r.Problem)
	require.Len(t, f.seen, 9, "16, and two halves of 16, 8, 4 and 2")
}

// TestACallThatIsRefusedIsRepeatedAlone: the others are not.
func TestACallThatIsRefusedIsRepeatedAlone(t *testing.T) {
	t.Parallel()
	f := foreign{}
	f.merge = func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		n := len(f.seen)
		records := f.seen[n-1].body.Records
		f.mu.Unlock()
		if n == 2 {
			http.Error(w, "too many calls", http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, results(len(records)))
	}
	r := runJSON(t.Context(), t, "-options 3 -records 12 -max-records 2 -processes 1 -calls-per-minute 10 -scale 60 -vendor %s", f.start(t))
	require.Zero(t, r.Code, r)
	require.Equal(t, [3]int{12, 6, 1}, [3]int{r.Served, r.Calls, r.Refused})
	times := map[string]int{}
	for _, s := range f.seen {
		text, err := json.Marshal(s.body)
		require.NoError(t, err)
		times[s.key+" "+string(text)]++
	}
	require.Len(t, times, 6)
	refused, err := json.Marshal(f.seen[1].body)
	require.NoError(t, err)
	require.Equal(t, 2, times[f.seen[1].key+" "+string(refused)], "with the same key and records")
}

// TestWrongNumbersOfResults: it is an error of the call, and the records are sent again.
func TestWrongNumbersOfResults(t *testing.T) {
	t.Parallel()
	for _, wrong := range []int{0, 1, 3} {
		f := foreign{}
		f.merge = func(w http.ResponseWriter, _ *http.Request) {
			f.mu.Lock()
			n := len(f.seen)
			f.mu.Unlock()
			if n == 1 {
				_, _ = io.WriteString(w, results(wrong))
				return
			}
			_, _ = io.WriteString(w, strings.TrimSpace(results(2)))
		}
		r := runJSON(t.Context(), t, "-options 1 -records 2 -processes 1 -scale 600 -vendor %s", f.start(t))
		require.Len(t, f.seen, 2)
		require.Zero(t, r.Code, r)
	}
}

// TestAVendorThatIsUnavailableForAWhile: no record is lost, nor sent in another call.
func TestAVendorThatIsUnavailableForAWhile(t *testing.T) {
	t.Parallel()
	f := foreign{}
	f.merge = func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		n := len(f.seen)
		records := f.seen[n-1].body.Records
		f.mu.Unlock()
		if n > 5 && n < 50 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, results(len(records)))
	}
	r := runJSON(t.Context(), t, "-options 4 -records 400 -max-records 10 -processes 1 -scale 60 -vendor %s", f.start(t))
	require.Zero(t, r.Code, r)
	require.Equal(t, [3]int{400, 40, 0}, [3]int{r.Served, r.Calls, r.Failed})
	require.Len(t, f.seen, 84)
}

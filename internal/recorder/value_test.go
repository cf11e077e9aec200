package recorder_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/recorder"
)

// A trace is an observer with a value.
type trace struct{}

type traceKey struct{}

func (t *trace) OnHeader(int) {}

func (t *trace) Value(key any) any {
	if key == (traceKey{}) {
		return t
	}
	return nil
}

// A hidingWriter has no Unwrap, and passes on what Value needs.
type hidingWriter struct{ http.ResponseWriter }

func (w hidingWriter) Value(key any) any { return recorder.Value(w.ResponseWriter, key) }

func TestValue(t *testing.T) {
	t.Parallel()
	w, rec := record(httptest.NewRecorder())
	require.Nil(t, recorder.Value(w, traceKey{}))
	attached := new(trace)
	rec.Observe(attached)
	inner, _ := record(w)
	for name, w := range map[string]http.ResponseWriter{"own": w, "inner": inner, "unwrapped": logging{inner}, "passed on": hidingWriter{inner}} {
		require.Same(t, attached, recorder.Value(w, traceKey{}), name)
		require.Nil(t, recorder.Value(w, "other"), name)
	}
	require.Nil(t, recorder.Value(bare{w}, traceKey{}), "hidden")
}

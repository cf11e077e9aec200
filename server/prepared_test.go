package server_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/server"
)

func TestAPreparedRejectionIsTheSameAsReject(t *testing.T) {
	t.Parallel()
	for _, rej := range []server.Rejection{
		{},
		{Status: 429, Type: "https://example.test/quota", Title: "Quota", Detail: `"exceeded"`, Policies: []string{"a", "b"}},
		{Status: 413},
	} {
		prepared := server.Prepare(rej)
		for _, wait := range []time.Duration{-1, time.Nanosecond, time.Minute} {
			for _, accept := range []string{"", "text/plain"} {
				for _, method := range []string{http.MethodGet, http.MethodHead} {
					r := httptest.NewRequest(method, "/", http.NoBody)
					r.Header.Set("Accept", accept)
					want, got := httptest.NewRecorder(), httptest.NewRecorder()
					want.Header().Set("Content-Length", "7")
					got.Header().Set("Content-Length", "7")
					rej.RetryAfter = wait
					server.Reject(want, r, rej)
					prepared.Reject(got, r, wait, func() error { panic("no plugin sees it") })
					require.Equal(t, want.Code, got.Code)
					require.Equal(t, want.Header(), got.Header())
					require.Equal(t, want.Body.String(), got.Body.String())
				}
			}
		}
	}
}

func TestAPreparedRejectionMarksTheRequest(t *testing.T) {
	t.Parallel()
	prepared := server.Prepare(server.Rejection{Status: 429})
	why := errors.New("why")
	outer, first := record(httptest.NewRecorder())
	inner, second := record(outer)
	prepared.Reject(inner, get("/"), time.Second, func() error { return why })
	require.Equal(t, why, first.Rejected())
	require.Equal(t, why, second.Rejected())
	require.Equal(t, 429, first.Status())

	w := httptest.NewRecorder()
	begun, rec := record(w)
	begun.WriteHeader(http.StatusAccepted)
	prepared.Reject(begun, get("/"), time.Second, func() error { return why })
	require.NoError(t, rec.Rejected())
	require.Equal(t, http.StatusAccepted, w.Code)
	require.Empty(t, w.Body.String())
}

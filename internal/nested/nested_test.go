package nested_test

import (
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/nested"
)

type (
	exchangeKey struct{} // of the Exchange itself
	chargeKey   struct{} // of a value of the request
	outerKey    struct{} // of the context around it
)

// exchange is an Exchange with a value of its own.
type exchange struct{ charge any }

func (x *exchange) InContext(key any) any {
	switch key.(type) {
	case exchangeKey:
		return x
	case chargeKey:
		return x.charge
	}
	return nil
}

func (*exchange) String() string { return "the exchange" }

func request(target string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader("body"))
	return r.WithContext(context.WithValue(r.Context(), outerKey{}, "outer"))
}

// enter returns the request of the handler.
func enter(r *http.Request) (*exchange, *http.Request) {
	x := &exchange{charge: "charge"}
	return x, nested.Enter(x, r).Request()
}

func TestServeGivesTheHandlerACopy(t *testing.T) {
	t.Parallel()
	r, w := request("/a?b"), httptest.NewRecorder()
	before := *r
	x := &exchange{charge: "charge"}
	nested.Serve(x, w, r, http.HandlerFunc(func(got http.ResponseWriter, inner *http.Request) {
		require.Same(t, w, got)
		require.NotSame(t, r, inner)
		require.Same(t, r.URL, inner.URL)
		require.Equal(t, r.Header, inner.Header)
		require.Equal(t, r.Body, inner.Body)
		ctx := inner.Context()
		require.Equal(t, "outer", ctx.Value(outerKey{}))
		require.Equal(t, "charge", ctx.Value(chargeKey{}))
		require.Nil(t, ctx.Value("other"))
		require.Same(t, x, nested.Claim(inner, exchangeKey{}))
	}))
	require.Equal(t, before, *r, "the original is as it was")
}

func TestTheContextEndsWithThatOfTheRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	_, inner := enter(request("/").WithContext(ctx))
	require.NoError(t, inner.Context().Err())
	cancel(http.ErrAbortHandler)
	require.ErrorIs(t, context.Cause(inner.Context()), http.ErrAbortHandler)
}

func TestAValueOfTheExchangeThatIsNilIsThatOfTheContext(t *testing.T) {
	t.Parallel()
	r := request("/")
	r = r.WithContext(context.WithValue(r.Context(), chargeKey{}, "of an outer exchange"))
	require.Equal(t, "of an outer exchange", nested.Enter(&exchange{}, r).Request().Context().Value(chargeKey{}))
	require.Equal(t, "inner", nested.Enter(&exchange{charge: "inner"}, r).Request().Context().Value(chargeKey{}))
}

func TestTheTextOfTheContextHasNothingOfTheRequest(t *testing.T) {
	t.Parallel()
	r := request("/secret")
	r.Header.Set("Authorization", "secret")
	_, inner := enter(r)
	require.Equal(t, "the exchange", fmt.Sprint(inner.Context()))
	ctx := context.WithValue(inner.Context(), outerKey{}, "x")
	require.NotContains(t, fmt.Sprint(ctx), "secret")
	require.Contains(t, fmt.Sprint(ctx), "the exchange")
}

func TestLeaveSetsPatternAndMultipartForm(t *testing.T) {
	t.Parallel()
	r := request("/a")
	r.Pattern = "outer"
	serve := func(handler http.HandlerFunc) { nested.Serve(&exchange{}, httptest.NewRecorder(), r, handler) }
	serve(func(http.ResponseWriter, *http.Request) {})
	require.Equal(t, "outer", r.Pattern, "nothing was set")
	first := &multipart.Form{}
	serve(func(_ http.ResponseWriter, inner *http.Request) {
		inner.Pattern, inner.MultipartForm = "POST /a", first
	})
	require.Equal(t, "POST /a", r.Pattern)
	require.Same(t, first, r.MultipartForm)
	serve(func(_ http.ResponseWriter, inner *http.Request) { inner.MultipartForm = &multipart.Form{} })
	require.Same(t, first, r.MultipartForm, "that of the original stays")

	r = request("/b")
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		serve(func(_ http.ResponseWriter, inner *http.Request) {
			inner.MultipartForm = first
			panic(http.ErrAbortHandler)
		})
	})
	require.Same(t, first, r.MultipartForm, "net/http removes its files after a panic too")
}

// TestClaim has the requests that a handler can see or make under the context of a Visit.
func TestClaim(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(r *http.Request) *http.Request
		found  bool
	}{
		"the same request": {func(r *http.Request) *http.Request { return r }, true},
		"a copy": {func(r *http.Request) *http.Request {
			return r.WithContext(context.WithValue(r.Context(), outerKey{}, 2))
		}, true},
		"a deep copy, whose body is the same": {func(r *http.Request) *http.Request { return r.Clone(r.Context()) }, true},
		"a copy with another body, whose header is the same": {func(r *http.Request) *http.Request {
			c := r.WithContext(r.Context())
			c.Body = http.NoBody
			return c
		}, true},
		"a prefix of the path cut off": {func(r *http.Request) *http.Request {
			c := r.Clone(r.Context())
			c.URL.Path = "/items"
			return c
		}, true},
		"another path": {func(r *http.Request) *http.Request {
			c := r.Clone(r.Context())
			c.URL.Path = "/api/other"
			return c
		}, false},
		"a longer path": {func(r *http.Request) *http.Request {
			c := r.Clone(r.Context())
			c.URL.Path = "/v1/api/items"
			return c
		}, false},
		"another query": {func(r *http.Request) *http.Request {
			c := r.Clone(r.Context())
			c.URL.RawQuery = "page=2"
			return c
		}, false},
		"another method": {func(r *http.Request) *http.Request {
			c := r.Clone(r.Context())
			c.Method = http.MethodGet
			return c
		}, false},
		"no URL": {func(r *http.Request) *http.Request {
			c := r.Clone(r.Context())
			c.URL = nil
			return c
		}, false},
		"a request of its own": {func(r *http.Request) *http.Request {
			c := httptest.NewRequest(http.MethodPost, "/api/items?page=1", strings.NewReader("body"))
			return c.WithContext(r.Context())
		}, false},
		"a request of its own without a body": {func(r *http.Request) *http.Request {
			c := httptest.NewRequest(http.MethodPost, "/api/items?page=1", http.NoBody)
			return c.WithContext(r.Context())
		}, false},
		"another context": {func(r *http.Request) *http.Request { return r.WithContext(context.Background()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, inner := enter(request("/api/items?page=1"))
			got := nested.Claim(tt.change(inner), exchangeKey{})
			if !tt.found {
				require.Nil(t, got)
				require.Same(t, x, nested.Claim(inner, exchangeKey{}), "a request that is not found claims nothing")
				return
			}
			require.Same(t, x, got)
		})
	}
}

func TestClaimAfterTheHandlerChangedThePath(t *testing.T) {
	t.Parallel()
	x, inner := enter(request("/api/items"))
	inner.URL.Path = "/items" // in place, as some routers do
	require.Same(t, x, nested.Claim(inner, exchangeKey{}))
}

func TestClaimsOfOtherKeys(t *testing.T) {
	t.Parallel()
	_, inner := enter(request("/"))
	require.Nil(t, nested.Claim(inner, chargeKey{}), "a value that is no Visit")
	require.Nil(t, nested.Claim(inner, outerKey{}))
	require.Nil(t, nested.Claim(inner, "unknown"))
}

func TestAnEmptyBodyIdentifiesNothing(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	_, inner := enter(r)
	own := httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(inner.Context())
	require.Nil(t, nested.Claim(own, exchangeKey{}), "http.NoBody is that of many requests")
	own.Body = nil
	require.Nil(t, nested.Claim(own, exchangeKey{}))
	own.Header, inner.Header = nil, nil
	require.Nil(t, nested.Claim(own, exchangeKey{}), "a nil header is that of many requests")
}

// odd is a body whose type cannot be compared.
type odd struct {
	*strings.Reader
	_ []int
}

func (odd) Close() error { return nil }

func TestABodyThatCannotBeComparedIdentifiesNothing(t *testing.T) {
	t.Parallel()
	r := request("/")
	r.Body = odd{Reader: strings.NewReader("x")}
	_, inner := enter(r)
	require.Nil(t, nested.Claim(inner.Clone(inner.Context()), exchangeKey{}))
}

func TestARequestWithoutURL(t *testing.T) {
	t.Parallel()
	r := request("/")
	r.URL = nil
	_, inner := enter(r)
	require.Nil(t, nested.Claim(inner, exchangeKey{}))
}

func TestOneOfManyRequestsWithTheSameHeaderClaims(t *testing.T) {
	t.Parallel()
	_, inner := enter(request("/"))
	var claims atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if nested.Claim(inner.WithContext(inner.Context()), exchangeKey{}) != nil {
				claims.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, claims.Load())
	require.Nil(t, nested.Claim(inner, exchangeKey{}))
}

// Not parallel: it counts allocations.
func TestEnterIsOneAllocation(t *testing.T) {
	r, x := request("/"), &exchange{}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { nested.Enter(x, r) }), 1.0)
}

// TestARequestForAnotherPathIsNotComparedFurther: the handler can replace the body of its own request
// meanwhile.
func TestARequestForAnotherPathIsNotComparedFurther(t *testing.T) {
	t.Parallel()
	_, inner := enter(request("/a"))
	other := request("/b").WithContext(inner.Context())
	other.Body = io.NopCloser(strings.NewReader("of b"))
	var wg sync.WaitGroup
	wg.Go(func() { inner.Body = io.NopCloser(strings.NewReader("of a")) })
	require.Nil(t, nested.Claim(other, exchangeKey{}))
	wg.Wait()
}

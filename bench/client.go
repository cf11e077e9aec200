package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	failsafe "github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	failsafetimeout "github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

// A stub answers every request with the same response, for one goroutine.
type stub struct {
	calls    int
	response http.Response
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls++
	s.response = http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody, Request: r,
	}
	return &s.response, nil
}

// exchange sends a GET, which has to reach the stub once. If around is nil the stub
// is the transport.
func exchange(s *stub, around http.RoundTripper) Work {
	if around == nil {
		around = s
	}
	req := must(http.NewRequestWithContext(context.Background(), http.MethodGet, "https://example.test/", http.NoBody))
	return work(func(string) bool {
		before := s.calls
		resp, err := around.RoundTrip(req)
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK && s.calls == before+1
	})
}

func over(name string, role Role, around func(http.RoundTripper) http.RoundTripper) Subject {
	return Subject{Name: name, Role: role, Make: func() Work {
		s := &stub{}
		return exchange(s, around(s))
	}}
}

func oursOver(base http.RoundTripper, plugins ...client.Plugin) http.RoundTripper {
	return client.New(base, plugins...)
}

func oursRetry() client.Plugin   { return retry.NewClient(nil, retry.ClientOptions{}) }
func oursBreaker() client.Plugin { return breaker.NewClient(nil, breaker.ClientOptions{}) }
func oursTimeout() client.Plugin {
	return timeout.NewClient(nil, timeout.ClientOptions{PerAttempt: true})
}

func safeRetry() failsafe.Policy[*http.Response] {
	return failsafehttp.NewRetryPolicyBuilder().Build() //nolint:bodyclose // a type argument
}

func safeBreaker() circuitbreaker.CircuitBreaker[*http.Response] {
	return circuitbreaker.NewBuilder[*http.Response]().WithFailureThresholdRatio(50, windowCalls).Build() //nolint:bodyclose // a type argument
}

// safe puts failsafe-go's policies around a transport, the outermost first.
func safe(policies ...failsafe.Policy[*http.Response]) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper { return failsafehttp.NewRoundTripper(base, policies...) }
}

func retryable(base http.RoundTripper) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: base}
	return &retryablehttp.RoundTripper{Client: c}
}

func clientRows(s Sizes) []Row {
	type tripper = http.RoundTripper
	stubbed := floorOf("stub transport", func() Work { return exchange(&stub{}, nil) })
	row := func(name string, subjects ...Subject) Row {
		return Row{Name: "client: " + name, Subjects: append(subjects, stubbed)}
	}
	return []Row{
		row("no plugin, GET", over("client.New", Ours, func(b tripper) tripper { return oursOver(b) })),
		row("retry, GET",
			over("client.New", Ours, func(b tripper) tripper { return oursOver(b, oursRetry()) }),
			over("failsafehttp", Peer, safe(safeRetry())), //nolint:bodyclose // a type argument
			over("go-retryablehttp", Peer, retryable)),
		row("retry and breaker, GET",
			over("client.New", Ours, func(b tripper) tripper { return oursOver(b, oursBreaker(), oursRetry()) }),
			over("failsafehttp", Peer, safe(safeRetry(), safeBreaker()))), //nolint:bodyclose // a type argument
		row("retry, breaker and a timeout for each attempt, GET",
			over("client.New", Ours, func(b tripper) tripper {
				return oursOver(b, oursBreaker(), oursRetry(), oursTimeout())
			}),
			over("failsafehttp", Peer, safe(safeRetry(), safeBreaker(), failsafetimeout.New[*http.Response](time.Minute)))), //nolint:bodyclose // a type argument
		{Name: "client: retry, upload of 64 MiB", Units: []Unit{{Name: "KiB allocated"}}, Subjects: []Subject{
			upload("client.New", Ours, s, func(b tripper) tripper { return oursOver(b, oursRetry()) }),
			keepsBody(upload("failsafehttp", Peer, s, safe(safeRetry()))), //nolint:bodyclose // a type argument
			keepsBody(upload("go-retryablehttp", Peer, s, retryable)),
			upload("stub transport", Floor, s, func(b tripper) tripper { return b }),
		}},
	}
}

// keepsBody marks a peer that keeps the body of an upload.
func keepsBody(s Subject) Subject {
	s.Note = "keeps the body of an upload, and can send it again; ours does not, and sends a body without GetBody once"
	return s
}

// upload sends a body that is not in memory and has no GetBody, and returns the bytes
// that were allocated.
func upload(name string, role Role, s Sizes, around func(http.RoundTripper) http.RoundTripper) Subject {
	return Subject{Name: name, Role: role, Sample: func() ([]float64, error) {
		base := &drain{buffer: make([]byte, 32<<10)}
		rt := around(base)
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, "https://example.test/", io.LimitReader(zeros{}, s.Upload))
		if err != nil {
			return nil, err
		}
		req.ContentLength = s.Upload
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		resp, err := rt.RoundTrip(req)
		runtime.ReadMemStats(&after)
		if err != nil {
			return nil, err
		}
		if err := resp.Body.Close(); err != nil {
			return nil, err
		}
		if base.got != s.Upload || base.calls != 1 {
			return nil, fmt.Errorf("%d bytes arrived in %d calls, not %d in 1", base.got, base.calls, s.Upload)
		}
		return []float64{float64(after.TotalAlloc-before.TotalAlloc) / 1024}, nil
	}}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A drain reads the body and answers as a stub does.
type drain struct {
	stub

	buffer []byte
	got    int64
}

func (d *drain) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		n, err := r.Body.Read(d.buffer)
		d.got += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	return d.stub.RoundTrip(r)
}

package dispatch_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/dispatch"
)

// The types have the methods of google.golang.org/grpc/status and its protobuf messages.
type (
	grpcError   struct{ status *grpcStatus }
	grpcStatus  struct{ message *grpcMessage }
	grpcCode    uint32
	grpcMessage struct {
		code    grpcCode
		text    string
		details []*grpcAny
	}
	grpcAny struct {
		url   string
		value []byte
	}
)

func (e *grpcError) Error() string            { return "rpc error" }
func (e *grpcError) GRPCStatus() *grpcStatus  { return e.status }
func (s *grpcStatus) Code() grpcCode          { return s.message.code }
func (s *grpcStatus) Message() string         { return s.message.text }
func (s *grpcStatus) Proto() *grpcMessage     { return s.message }
func (m *grpcMessage) GetDetails() []*grpcAny { return m.details }
func (a *grpcAny) GetTypeUrl() string         { return a.url } //nolint:revive // as protobuf has it
func (a *grpcAny) GetValue() []byte           { return a.value }

func grpc(code grpcCode, d ...*grpcAny) error { return grpcSays(code, "", d...) }

func grpcSays(code grpcCode, text string, d ...*grpcAny) error {
	return &grpcError{&grpcStatus{&grpcMessage{code, text, d}}}
}

func detail(name string, value []byte) *grpcAny {
	return &grpcAny{"type.googleapis.com/" + name, value}
}

func number(field, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, field<<3), v)
}

func message(field uint64, parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, field<<3|2), uint64(len(all))), all...)
}

func status(code int, retryAfter, body string) error {
	resp := &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}}, Body: io.NopCloser(strings.NewReader(body))}
	if retryAfter != "" {
		resp.Header.Set("Retry-After", retryAfter)
	}
	return dispatch.CheckResponse(resp)
}

func adsBody(errs string) string {
	return `{"error":{"code":429,"details":[{"@type":"x","errors":7},{"@type":"type.googleapis.com/google.ads.googleads.v20.errors.GoogleAdsFailure","errors":[` + errs + `]}]}}`
}

func usedUp() http.Header {
	return http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"30"}}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	const retryInfo, ads = "google.rpc.RetryInfo", "google.ads.googleads.v20.errors.GoogleAdsFailure"
	delay := func(field, seconds, nanos uint64) []byte { return message(field, number(1, seconds), number(2, nanos)) }
	quota := func(parts ...[]byte) []byte { return message(1, message(5, message(4, parts...))) }
	var nilError *grpcError
	for name, c := range map[string]struct {
		err     error
		want    dispatch.Limited
		limited bool
	}{
		"nil":                    {},
		"another":                {err: errors.New("429")},
		"429":                    {status(429, "", ""), dispatch.Limited{}, true},
		"429 with a time":        {fmt.Errorf("report: %w", status(429, "15", "")), dispatch.Limited{RetryAfter: 15 * time.Second}, true},
		"503":                    {err: status(503, "", "")},
		"503 with a time":        {status(503, "15", ""), dispatch.Limited{RetryAfter: 15 * time.Second}, true},
		"500":                    {err: status(500, "", "")},
		"500 with a time":        {status(500, "15", ""), dispatch.Limited{RetryAfter: 15 * time.Second}, true},
		"403":                    {err: status(403, "", "")},
		"403 with a time":        {status(403, "60", ""), dispatch.Limited{RetryAfter: time.Minute}, true},
		"403 with 0":             {err: status(403, "0", "")},
		"503 with 0":             {err: status(503, "0", "")},
		"429 with 0":             {status(429, "0", ""), dispatch.Limited{}, true},
		"429 with decimals":      {status(429, "2.0", ""), dispatch.Limited{RetryAfter: 2 * time.Second}, true},
		"429 with a huge time":   {status(429, "9223372037", ""), dispatch.Limited{RetryAfter: 1<<63 - 1}, true},
		"429, used up":           {&dispatch.StatusError{StatusCode: 429, Header: usedUp()}, dispatch.Limited{RetryAfter: 30 * time.Second}, true},
		"404, used up":           {err: &dispatch.StatusError{StatusCode: 404, Header: usedUp()}},
		"gRPC":                   {grpc(8), dispatch.Limited{}, true},
		"gRPC with a time":       {errors.Join(io.EOF, grpc(8, detail("x", nil), detail(retryInfo, delay(1, 15, 5e8)))), dispatch.Limited{RetryAfter: 15500 * time.Millisecond}, true},
		"gRPC unavailable":       {err: grpc(14)},
		"unavailable, a time":    {grpc(14, detail(retryInfo, delay(1, 1, 0))), dispatch.Limited{RetryAfter: time.Second}, true},
		"gRPC not found":         {err: grpc(5, detail(retryInfo, delay(1, 1, 0)))},
		"gRPC a century":         {grpc(8, detail(retryInfo, delay(1, 1<<62, 0))), dispatch.Limited{RetryAfter: 1<<63 - 1}, true},
		"gRPC negative":          {grpc(8, detail(retryInfo, delay(1, 1<<64-5, 0))), dispatch.Limited{}, true},
		"gRPC broken":            {grpc(8, detail(retryInfo, []byte{0x0a, 0xff})), dispatch.Limited{}, true},
		"gRPC nil":               {err: &grpcError{}},
		"gRPC nil error":         {err: nilError},
		"gRPC quota":             {grpcSays(8, "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'"), dispatch.Limited{}, true},
		"gRPC calm":              {grpcSays(8, "stream terminated by RST_STREAM with error code: ENHANCE_YOUR_CALM"), dispatch.Limited{}, true},
		"too large, with a time": {grpcSays(8, "message too large", detail(retryInfo, delay(1, 1, 0))), dispatch.Limited{RetryAfter: time.Second}, true},
		"Go receives":            {err: grpcSays(8, "grpc: received message larger than max (5242880 vs. 4194304)")},
		"Go receives, wrapped":   {err: fmt.Errorf("report: %w", grpcSays(8, "grpc: received message larger than max (5242880 vs. 4194304)"))},
		"Go, this machine":       {err: grpcSays(8, "grpc: received message larger than max length allowed on current machine (4294967295 vs. 2147483647)")},
		"Go decompresses":        {err: grpcSays(8, "grpc: received message after decompression larger than max 4194304")},
		"Go decompressed before": {err: grpcSays(8, "grpc: message after decompression larger than max (5242880 vs. 4194304)")},
		"Go sends":               {err: grpcSays(8, "grpc: trying to send message larger than max (5242880 vs. 4194304)")},
		"C++ receives":           {err: grpcSays(8, "SERVER: Received message larger than max (5242880 vs. 4194304)")},
		"C++ sends":              {err: grpcSays(8, "CLIENT: Sent message larger than max (5242880 vs. 4194304)")},
		"C++ metadata":           {err: grpcSays(8, "received metadata size exceeds hard limit (20000 vs. 16384)")},
		"Java receives":          {err: grpcSays(8, "gRPC message exceeds maximum size 4194304: 5242880")},
		"Java decompresses":      {err: grpcSays(8, "Decompressed gRPC message exceeds maximum size 4194304")},
		"Java sends":             {err: grpcSays(8, "message too large 5242880 > 4194304")},
		"Node sends":             {err: grpcSays(8, "Attempted to send message with a size larger than 4194304")},
		"Node decompresses":      {err: grpcSays(8, "Received message that decompresses to a size larger than 4194304")},
		".NET receives":          {err: grpcSays(8, "Received message exceeds the maximum configured message size.")},
		"Connect receives":       {err: grpcSays(8, "message size 5242880 is larger than configured max 4194304")},
		"Connect sends":          {err: grpcSays(8, "message size 5242880 exceeds sendMaxBytes 4194304")},
		"ads account":            {grpc(8, detail(ads, quota(number(1, 2), delay(3, 30, 0)))), dispatch.Limited{RetryAfter: 30 * time.Second, Scope: dispatch.ScopeAccount}, true},
		"ads developer":          {grpc(8, detail(ads, quota(number(1, 3), delay(3, 30, 0)))), dispatch.Limited{RetryAfter: 30 * time.Second}, true},
		"ads, both":              {grpc(8, detail(ads, append(quota(number(1, 2), delay(3, 30, 0)), quota(number(1, 3), delay(3, 5, 0))...))), dispatch.Limited{RetryAfter: 30 * time.Second}, true},
		"ads JSON":               {status(429, "", adsBody(`{"errorCode":{"quotaError":"RESOURCE_TEMPORARILY_EXHAUSTED"},"details":{"quotaErrorDetails":{"rateScope":"ACCOUNT","retryDelay":"5.5s"}}}`)), dispatch.Limited{RetryAfter: 5500 * time.Millisecond, Scope: dispatch.ScopeAccount}, true},
		"ads JSON, a day":        {status(429, "", adsBody(`{"errorCode":{"quotaError":"RESOURCE_EXHAUSTED"}}`)), dispatch.Limited{}, true},
		"ads JSON, no quota":     {status(429, "7", adsBody(`{"errorCode":{"requestError":"UNKNOWN"}}`)), dispatch.Limited{RetryAfter: 7 * time.Second}, true},
		"a body of another kind": {status(429, "7", `[1]`), dispatch.Limited{RetryAfter: 7 * time.Second}, true},
	} {
		got, limited := dispatch.Classify(c.err)
		require.Equal(t, c.limited, limited, name)
		if limited {
			require.Equal(t, c.want, got, name)
		}
	}
}

func TestABodyCanBeReadAfterItsCheck(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<17)
	resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(long))}
	e, ok := errors.AsType[*dispatch.StatusError](dispatch.CheckResponse(resp))
	require.True(t, ok)
	require.Len(t, e.Body, 1<<16)
	require.Equal(t, "dispatch: HTTP status 503 Service Unavailable", e.Error())
	require.Equal(t, long, string(core.Must(io.ReadAll(resp.Body))))
	require.NoError(t, dispatch.CheckResponse(nil))
	html := &http.Response{StatusCode: http.StatusTooManyRequests, Body: io.NopCloser(stalled{})}
	require.Error(t, dispatch.CheckResponse(html), "it does not wait for a body that it does not need")
}

type stalled struct{}

func (stalled) Read([]byte) (int, error) { panic("read") }

func FuzzClassifyGRPC(f *testing.F) {
	f.Add("google.rpc.RetryInfo", message(1, number(1, 15), number(2, 1)))
	f.Add("google.ads.googleads.v20.errors.GoogleAdsFailure", message(1, message(5, message(4, number(1, 2)))))
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		limit, ok := dispatch.Classify(grpc(8, detail(name, value)))
		if !ok || limit.RetryAfter < 0 {
			t.Errorf("%v, %v", limit, ok)
		}
	})
}

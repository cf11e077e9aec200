package dispatch

import (
	"encoding/binary"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A grpcStatus has the parts of a google.rpc.Status that are read here, without an import of
// gRPC or protobuf.
type grpcStatus struct {
	code    uint64
	message string
	details []grpcDetail
}

type grpcDetail struct {
	name  string // of the message, with its package
	value []byte // in the binary format of protobuf
}

// The codes of gRPC that can mean a limit, or that no answer came.
const (
	canceledCall      = 1
	deadlineExceeded  = 4
	resourceExhausted = 8
	unavailable       = 14
)

// ClassifyGRPC knows the errors of google.golang.org/grpc: the code RESOURCE_EXHAUSTED,
// with or without a google.rpc.RetryInfo, and UNAVAILABLE with one. RESOURCE_EXHAUSTED of a
// message that is too large to be sent or received is no limit: it would be too large again.
func ClassifyGRPC(err error) (Limited, bool) {
	s := statusOf(err)
	for _, d := range s.details {
		if d.name == "google.rpc.RetryInfo" && (s.code == resourceExhausted || s.code == unavailable) {
			for _, delay := range fields(d.value, 1) {
				return Limited{RetryAfter: duration(delay)}, true
			}
		}
	}
	return Limited{}, s.code == resourceExhausted && !s.tooLarge()
}

// tooLarge reports whether a message or its metadata was too large, for the client or for the
// server. Only the text says that: gRPC has the same code for it as for a quota.
func (s *grpcStatus) tooLarge() bool {
	if s.code != resourceExhausted {
		return false
	}
	text := strings.ToLower(s.message)
	return slices.ContainsFunc([]string{
		"message larger than max",                     // Go, C++, Python, Ruby, PHP, Node
		"message after decompression larger than max", // Go
		"message with a size larger than",             // Node
		"message that decompresses to a size larger",  // Node
		"grpc message exceeds maximum size",           // Java, also of compressed ones
		"message too large",                           // Java
		"message exceeds the maximum configured",      // .NET
		"is larger than configured max",               // Connect
		"exceeds sendmaxbytes",                        // Connect
		"received metadata size exceeds",              // C++, Python, Ruby, PHP
	}, func(phrase string) bool { return strings.Contains(text, phrase) })
}

// adsStatus reads the QuotaErrorDetails of a GoogleAdsFailure: errors 1, details 5,
// quota_error_details 4, with rate_scope 1 (2 is ACCOUNT) and retry_delay 3.
func adsStatus(err error) (limit Limited, ok bool) {
	for _, d := range statusOf(err).details {
		if !strings.HasPrefix(d.name, "google.ads.") || !strings.HasSuffix(d.name, ".GoogleAdsFailure") {
			continue
		}
		for _, one := range fields(d.value, 1) {
			for _, details := range fields(one, 5) {
				for _, quota := range fields(details, 4) {
					wait, account := time.Duration(0), false
					for scope := range fields(quota, 1) {
						account = scope == 2
					}
					for _, delay := range fields(quota, 3) {
						wait = duration(delay)
					}
					limit.merge(wait, account, ok)
					ok = true
				}
			}
		}
	}
	return limit, ok
}

// statusOf returns the status of the first error in the tree of err that has a method
// GRPCStatus, as the errors of gRPC do. The type of its result has the methods Code, Message and
// Proto; the last returns a message with GetDetails, a list of google.protobuf.Any.
func statusOf(err error) grpcStatus {
	if isNil(reflect.ValueOf(err)) {
		return grpcStatus{}
	}
	if status := result(reflect.ValueOf(err).MethodByName("GRPCStatus")); !isNil(status) {
		return readStatus(status)
	}
	switch tree := err.(type) { //nolint:errorlint // this is the walk of the tree itself
	case interface{ Unwrap() error }:
		return statusOf(tree.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range tree.Unwrap() {
			if s := statusOf(part); s.code != 0 {
				return s
			}
		}
	}
	return grpcStatus{}
}

func readStatus(status reflect.Value) (s grpcStatus) {
	if code := result(status.MethodByName("Code")); code.IsValid() && code.CanUint() {
		s.code = code.Uint()
	}
	if message := result(status.MethodByName("Message")); message.IsValid() && message.Kind() == reflect.String {
		s.message = message.String()
	}
	message := result(status.MethodByName("Proto"))
	if isNil(message) {
		return s
	}
	details := result(message.MethodByName("GetDetails"))
	if !details.IsValid() || details.Kind() != reflect.Slice {
		return s
	}
	for i := range details.Len() {
		detail, ok := details.Index(i).Interface().(interface {
			GetTypeUrl() string
			GetValue() []byte
		})
		if ok {
			url := detail.GetTypeUrl()
			s.details = append(s.details, grpcDetail{url[strings.LastIndexByte(url, '/')+1:], detail.GetValue()})
		}
	}
	return s
}

func isNil(v reflect.Value) bool {
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil()
}

// result calls a method without arguments and with one result. It returns the zero Value
// if there is no such method.
func result(method reflect.Value) reflect.Value {
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return reflect.Value{}
	}
	return method.Call(nil)[0]
}

// duration reads a google.protobuf.Duration: seconds 1, nanos 2. A negative one is 0.
func duration(message []byte) time.Duration {
	var seconds, nanos int64
	for n := range fields(message, 1) {
		seconds = int64(n)
	}
	for n := range fields(message, 2) {
		nanos = int64(n)
	}
	if seconds >= math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return max(0, time.Duration(max(0, seconds))*time.Second+time.Duration(nanos))
}

// fields iterates over the values of one field of a protobuf message: a number, or the
// bytes of a field that has a length. It ends at the first byte that is not valid.
func fields(message []byte, number uint64) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for rest := message; len(rest) > 0; {
			tag, n := binary.Uvarint(rest)
			if n <= 0 {
				return
			}
			rest = rest[n:]
			var value uint64
			var content []byte
			switch tag & 7 {
			case 0:
				if value, n = binary.Uvarint(rest); n <= 0 {
					return
				}
			case 1:
				n = 8
			case 2:
				length, size := binary.Uvarint(rest)
				if size <= 0 || length > uint64(len(rest)-size) {
					return
				}
				n = size + int(length)
				content = rest[size:n]
			case 5:
				n = 4
			default:
				return
			}
			if n > len(rest) {
				return
			}
			rest = rest[n:]
			if tag>>3 == number && !yield(value, content) {
				return
			}
		}
	}
}

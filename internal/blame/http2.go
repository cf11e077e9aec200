package blame

import (
	"errors"
	"reflect"
	"strings"
)

// RFC 9113, section 7.
const (
	refusedStream   = 0x7
	enhanceYourCalm = 0xb
)

// A streamError is the StreamError of golang.org/x/net/http2, or net/http's own, whose type is not
// exported. By their method As, errors.As makes of them any struct with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "http2: stream was reset" }

// reset returns the code with which the stream of a request was reset, or 0, which is NO_ERROR.
func reset(err error) (code uint32) {
	e, _ := errors.AsType[streamError](err)
	return e.Code
}

// Refused reports whether the server refused the stream, or went away before it, and did
// nothing with it.
func Refused(err error) bool {
	return reset(err) == refusedStream || Any(err, unprocessed)
}

// unprocessed knows two errors without a type by their texts: a stream came after the last
// one of a server that goes away, or a transport would send a request again if it had GetBody.
func unprocessed(err error) bool {
	text, found := strings.CutPrefix(err.Error(), "http2: Transport: cannot retry err [")
	return strings.HasPrefix(text, "http2: Transport received Server's graceful shutdown GOAWAY") ||
		found && strings.Contains(text, "; REFUSED_STREAM")
}

// Throttled reports whether the server reset the stream, or closed the connection, since
// its client sends too much (ENHANCE_YOUR_CALM).
func Throttled(err error) bool {
	return reset(err) == enhanceYourCalm || Any(err, goneAway)
}

// goneAway reports whether err is a GoAwayError, which unlike StreamError has no method As. For the
// first request of a connection there is only a text.
func goneAway(err error) bool {
	if v := reflect.ValueOf(err); v.Kind() == reflect.Struct && strings.HasSuffix(v.Type().Name(), "GoAwayError") {
		code := v.FieldByName("ErrCode")
		return code.CanUint() && code.Uint() == enhanceYourCalm
	}
	return err.Error() == "http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"
}

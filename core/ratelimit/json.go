package ratelimit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unique"
)

var errJSONJoined = errors.New("ratelimit: a Limit joined by And has no JSON form: marshal each limit of All")

// plainLimit is a Limit without its methods.
type plainLimit Limit

// MarshalJSON returns an object with the fields of l, which UnmarshalJSON reads. It returns
// an error if that would lose something: for a limit joined by And, and for one with an
// unknown Algorithm.
func (l Limit) MarshalJSON() ([]byte, error) {
	switch {
	case l.also != (unique.Handle[Limit]{}):
		return nil, errJSONJoined
	case l.Algorithm >= algorithms:
		return nil, fmt.Errorf("ratelimit: %v has no JSON form", l.Algorithm)
	}
	return json.Marshal(plainLimit(l))
}

// UnmarshalJSON replaces l by what MarshalJSON wrote. A field that is missing is zero. It
// returns an error, and leaves l as it is, if the object has a field that a Limit does not
// have. It does not validate the limit.
func (l *Limit) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var read plainLimit
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil {
		return fmt.Errorf("ratelimit: reading a Limit: %w", err)
	}
	*l = Limit(read)
	return nil
}

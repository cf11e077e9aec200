package dash

import (
	"errors"
	"fmt"
	"time"
)

var (
	errUnread  = errors.New("the reading did not return")
	errUnknown = errors.New("there is no such target")
	errVerb    = errors.New("this control does not exist for the target")
)

// A slowError is the error of an instance that could not be read in time.
type slowError struct{ timeout time.Duration }

func (e *slowError) Error() string { return fmt.Sprintf("no answer within %v", e.timeout) }

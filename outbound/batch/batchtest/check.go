package batchtest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

func (k *kit) fail(because []any, format string, args ...any) {
	k.Helper()
	k.Fatal(strings.TrimSpace(fmt.Sprintf(format, args...) + " " + fmt.Sprint(because...)))
}

func (k *kit) noError(err error) {
	k.Helper()
	if err != nil {
		k.fail(nil, "error %v, want none", err)
	}
}

func (k *kit) isError(err, target error) {
	k.Helper()
	if !errors.Is(err, target) {
		k.fail(nil, "error %v, want %v", err, target)
	}
}

func (k *kit) equal(want, got any, because ...any) {
	k.Helper()
	if !reflect.DeepEqual(want, got) {
		k.fail(because, "got %+v, want %+v", got, want)
	}
}

func (k *kit) isTrue(ok bool, because ...any) {
	k.Helper()
	k.equal(true, ok, because...)
}

func (k *kit) isFalse(ok bool, because ...any) {
	k.Helper()
	k.equal(false, ok, because...)
}

func (k *kit) length(want int, of any, because ...any) {
	k.Helper()
	if n := reflect.ValueOf(of).Len(); n != want {
		k.fail(because, "%d elements, want %d", n, want)
	}
}

func (k *kit) zero(v any, because ...any) {
	k.Helper()
	if !reflect.ValueOf(v).IsZero() {
		k.fail(because, "got %+v, want nothing", v)
	}
}

func (k *kit) atLeast(want, got time.Duration) {
	k.Helper()
	if got < want {
		k.fail(nil, "%v, want at least %v", got, want)
	}
}

// recent checks a time of the store, whose clock may differ a little.
func (k *kit) recent(at time.Time) {
	k.Helper()
	if age := time.Since(at); max(age, -age) > patient {
		k.fail(nil, "%v ago, want a recent time", age)
	}
}

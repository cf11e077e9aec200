package program

import (
	"io"
	"os"
	"strings"
)

// Bar returns a progress bar.
func Bar[T ~int | ~int64](done, total T) string {
	const width = 30
	n := int(width * done / total)
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

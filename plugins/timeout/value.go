package timeout

import "github.com/gresil/gresil/server"

// Value finds what outer plugins attached to the request. It does not use the writer
// below, so it works after the limit too.
func (h *heldWriter) Value(key any) any { return server.Value(h.w, key) }

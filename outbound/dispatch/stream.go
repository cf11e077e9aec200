package dispatch

import (
	"context"
	"iter"
)

// A Page is one answer of a [Stream].
type Page[R, P any] struct {
	Rows []R
	// Next is the position of the next page: a token, an offset, a number.
	Next P
	// More reports whether there is a next page.
	More bool
}

// Stream iterates over the rows of all pages, from the one at the position first. Each
// page is an attempt that passes the gate as one of [Do] does. If the vendor refuses it
// because of a limit, the stream pauses with all other calls and continues with the same
// page, so no row is repeated or lost. The limit of Config.Attempts is that of one page.
//
// The stream keeps its connection until the last row, until the loop ends, or until an
// error, which is the last element. No page is fetched before its rows are needed.
//
// A loop over a stream must not make calls with the same dispatcher if all connections can
// belong to such loops: each would wait for the others. This is not detected.
func Stream[R, P any, K comparable, C any](ctx context.Context, d *Dispatcher[K, C], key K, first P, fetch func(ctx context.Context, conn C, at P) (Page[R, P], error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		c, err := d.begin(ctx, key)
		if err != nil {
			yield(none, err)
			return
		}
		defer c.finish()
		c.pinned = true
		for at, more := first, true; more; {
			page, err := repeat(c, func(ctx context.Context, conn C) (Page[R, P], error) { return fetch(ctx, conn, at) })
			if err != nil {
				yield(none, err)
				return
			}
			ended := c.end
			c.end = canceled // unless the loop comes to the end
			for _, row := range page.Rows {
				if !yield(row, nil) {
					return
				}
			}
			c.end = ended
			at, more = page.Next, page.More
		}
	}
}

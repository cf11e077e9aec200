package bulkhead

import (
	"context"
	"time"
)

// A Store shares permits among processes: the bulkheads of one name hold at most the limit
// together. The Store of stores/redisstore is one. Only the author of a store needs the
// methods.
type Store interface {
	// OpenBulkhead opens the table of the bulkheads of that name. It does not wait, starts
	// no goroutine, and keeps nothing: a bulkhead can be made anew for each call.
	OpenBulkhead(name string) (Table, error)
}

// A Table is the permits of the bulkheads of one name in a [Store]. It is safe for
// concurrent use.
type Table interface {
	// Acquire takes permits. If they are not free, it waits for up to Wait, first come,
	// first served, but not after the end of ctx, nor when the limit is below the weight; then
	// it returns [ErrFull], which it does not wrap. Any other error reports that the store cannot decide, or is the cause of
	// ctx. After an error, the caller has no permits.
	//
	// The permits are leased, and the store renews the lease until release is called, once.
	// release waits for one reply at most, and returns the permits later if it fails. A
	// process that ends without release returns its permits when their leases end.
	Acquire(ctx context.Context, r Request) (release func(), err error)
}

// A Request is a call that needs permits of a [Table].
type Request struct {
	Key    string
	Weight int           // the permits that the call needs, from 1 to the limit
	Limit  func() int    // the permits of the key that may be in use; it can change
	Wait   time.Duration // if zero, the call does not wait
	// Lost is called before other calls can have the permits, as far as a clock can show
	// it. err is nil if the store has given them to others. If the store cannot be reached
	// to renew them in time, err is its error, and the store tries further: Lost can be
	// called once more, without an error. It is called with no lock held and does not
	// block, also during release and shortly after it.
	Lost func(err error)
}

// openTable opens the table of b, if there is a Store.
func (b *Bulkhead) openTable() (err error) {
	if s := b.config().Store; s != nil {
		b.table, err = s.OpenBulkhead(b.Name())
		b.ended, b.end = context.WithCancel(context.Background())
	}
	return err
}

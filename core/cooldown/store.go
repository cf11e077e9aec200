package cooldown

import (
	"context"
	"time"
)

// A Store shares holds among processes: a [Cooldown] with Config.Store exchanges them with
// the others of its name. The Store of stores/redisstore is one. Only the author of a store
// needs the methods, which package cooldowntest tests.
type Store interface {
	// OpenCooldown opens the table of the cooldowns of that name. It does not wait, and
	// starts no goroutine. Cooldowns that open a name with one Store share it as well.
	OpenCooldown(name string, l Listener) (Table, error)
}

// A Table is the view that one [Cooldown] has of a [Store]. It is safe for concurrent use.
type Table interface {
	// Sync is called before each admission of a key, and again right before a call. It
	// returns at once while the holds of the others are known, or cannot be read. Otherwise
	// it waits until they were read, for a short time that the store documents, and not
	// after the end of ctx.
	Sync(ctx context.Context, key string)
	// Hold is called after a hold has begun here, or was extended: it ends after left. It
	// does not wait. The store keeps the later end, by a clock of its own, and tries again
	// until left is over if it fails.
	Hold(key string, left time.Duration)
	// Release is called after a hold that had left to run was released here. It does not
	// wait. A hold in the store that ends later than that one stays.
	Release(key string, left time.Duration)
	// Close ends the use of the table. It does not wait, and can be called by a function
	// of the Listener. Holds stay in the store.
	Close()
}

// A Listener is a [Cooldown], as its [Table] sees it. The functions are called with no lock
// held, from any goroutine, one after the other, and never before the first Sync or Hold.
type Listener struct {
	// Held reports that another cooldown holds the key for left from now on.
	Held func(key string, left time.Duration)
	// Released reports that another cooldown has released the key.
	Released func(key string)
	// Failed reports that holds are no longer shared, once for each failure of the store.
	Failed func(err error)
	// Recovered reports that they are shared again.
	Recovered func()
}

// openTable opens the table of c, if there is a Store.
func (c *Cooldown) openTable() (err error) {
	if s := c.config().Store; s != nil {
		c.table, err = s.OpenCooldown(c.Name(), Listener{Held: c.holdElsewhere, Released: c.releasedElsewhere, Failed: c.failed, Recovered: c.restored})
	}
	return err
}

func (c *Cooldown) closeTable() {
	if c.table != nil {
		c.table.Close()
	}
}

// holdElsewhere holds a key that is held by another cooldown of the name.
func (c *Cooldown) holdElsewhere(key string, left time.Duration) {
	c.locked(func(now time.Duration) {
		c.hold(context.Background(), key, c.lookup(key, now), now, left, heard)
	})
}

// releasedElsewhere releases a key that was released by another cooldown of the name.
func (c *Cooldown) releasedElsewhere(key string) {
	c.locked(func(now time.Duration) { c.release(key, now) })
}

func (c *Cooldown) failed(err error) { c.storeChanged(storeFailed, err) }
func (c *Cooldown) restored()        { c.storeChanged(storeRecovered, nil) }

func (c *Cooldown) storeChanged(what what, err error) {
	defer c.announce()
	c.mu.Lock()
	defer c.mu.Unlock()
	if what == storeFailed {
		c.stats.StoreFailures++
	}
	c.changes.Append(change{ctx: context.Background(), what: what, err: err})
}

package ratelimit

import "github.com/gresil/gresil/core/ratelimit/driver"

// A Store holds the state of keys: in the memory of the process (see [NewMemory]), or where
// many processes share it. What it has to do is in package driver.
type Store = driver.Store

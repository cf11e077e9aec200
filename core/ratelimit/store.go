package ratelimit

import "github.com/gresil/gresil/core/ratelimit/driver"

// A Store holds the state of keys: in the memory of the process (see [NewMemory]), or shared by
// many processes. Package driver describes its methods.
type Store = driver.Store

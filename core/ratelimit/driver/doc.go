// Package driver is for authors of stores: the interfaces that a store implements, and the types in
// their signatures. Users of limits need package ratelimit only.
//
// A store that keeps a value for each key gets its tables from package keyvalue, which has the
// arithmetic. A store with arithmetic of its own, such as scripts in a server, implements [Table].
// Package ratelimittest has the tests that every store must pass.
package driver

// Package driver is for authors of stores: the arithmetic of the limits, and the interfaces
// that a store implements. Users of limits need package ratelimit only.
package driver

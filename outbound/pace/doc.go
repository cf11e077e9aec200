// Package pace paces calls.
package pace

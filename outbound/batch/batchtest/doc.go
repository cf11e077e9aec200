// Package batchtest has the conformance tests of a [batch.Store].
//
//	func TestStore(t *testing.T) {
//		batchtest.Run(t, func(t *testing.T) batch.Store { return mystore.New(...) })
//	}
//
// The tests use short real times, and judge by order and counts: they are not disturbed by a slow
// machine or a distant server.
package batchtest

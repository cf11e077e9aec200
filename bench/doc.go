// Package bench compares this module with its peers: the same work for all, checked
// while it is measured, one after the other in many short rounds of one process. It
// is a module of its own, so that no peer gets into the go.mod of the product.
//
//	go -C bench run ./cmd/compare -quick
//
// docs/benchmarks.md says how to read it.
package bench

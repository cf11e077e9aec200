// Package readmetest compiles the Go code of the README and of docs in this module. Code
// that uses another library of the kind, as the start of a migration does, is compiled
// in the module of bench, or of a guide, which requires them. It runs without the race
// detector, by make check.
package readmetest

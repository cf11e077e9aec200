// Package readmetest compiles the Go blocks of README and docs. It does so in the module of bench, which requires the libraries
// that the migration guides begin with. It runs without the race detector, by make check.
package readmetest

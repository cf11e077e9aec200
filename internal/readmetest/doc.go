// Package readmetest compiles the Go code of the README and of docs.
package readmetest

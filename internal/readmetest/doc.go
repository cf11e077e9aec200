// Package readmetest compiles the Go code of the README and of docs: in this module,
// or where it uses another library of the kind, as what a migration begins with does,
// in the module of bench, which has them.
package readmetest

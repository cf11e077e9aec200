// Package escalating simulates a vendor that punishes haste, and two clients that it
// punishes: the controls of tests and demos of outbound/gate.
package escalating

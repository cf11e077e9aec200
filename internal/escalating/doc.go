// Package escalating simulates vendors that punish haste, for tests and demos of outbound/gate.
package escalating

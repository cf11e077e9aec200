// Package prosetest holds the language of comments, documents and messages at its level. It
// runs without the race detector, by make check.
package prosetest

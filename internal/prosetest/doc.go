// Package prosetest holds the language of comments, documents and messages at its level.
package prosetest

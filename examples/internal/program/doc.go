// Package program has the parts that the demos share: processes of their own, a server, measures, and a
// progress bar.
package program

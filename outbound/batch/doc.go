// Package batch groups calls: code makes calls with one record each, and the vendor gets calls with
// up to as many records as it accepts.
package batch

// Package redisbatch keeps the records of outbound/batch in Redis.
package redisbatch

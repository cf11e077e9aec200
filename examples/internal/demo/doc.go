// Package demo is what the example programs share: their command lines and processes, the workers that make calls, the
// judgement of a vendor by its own clock, progress, and the report at the end of a run.
package demo

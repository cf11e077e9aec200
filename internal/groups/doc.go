// Package groups is what carries outbound/jobs and outbound/batch: an [Engine], which jobs.Memory and asynqjobs.New make, with a [Queue]
// of jobs and a [Store] of records in groups. It has the Store in memory; the one in Redis is in outbound/jobs/asynqjobs,
// as are the tests that both pass.
package groups

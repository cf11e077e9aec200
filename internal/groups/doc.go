// Package groups keeps records in groups until they are due, and carries the queue that runs them. It has the [Store] of groups
// in memory; the one in Redis is in outbound/jobs/asynqjobs. Package groupstest has the tests that both pass.
package groups

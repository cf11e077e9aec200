// Package asynqjobs is an engine of outbound/jobs that keeps the jobs in Redis, by asynq.
package asynqjobs

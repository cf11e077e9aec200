// Package asynqjobs is an engine of outbound/jobs and outbound/batch that keeps everything in Redis. It uses
// github.com/hibiken/asynq for its broker, leases and inspector; its aggregator and its limits are not used.
//
//	engine, err := asynqjobs.New(redis.NewClient(&redis.Options{Addr: addr}), asynqjobs.Config{})
//
// Tools of asynq show the queues: a job is a task with its ID. If a process dies, its jobs run again 60 to 120 seconds
// later in another one. A job is at most a second late, and never early; a wait of up to 2 seconds is exact. Idle queues
// cost nothing by themselves: a process looks at all of its queues together, each Config.Poll.
package asynqjobs

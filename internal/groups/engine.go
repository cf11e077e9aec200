// Package groups is what carries outbound/jobs and outbound/batch: an Engine, which jobs.Memory and asynqjobs.New make, with a queue
// of jobs.
package groups

// An Engine keeps jobs. It has no exported fields and no methods: it can be made and opened only in this module.
type Engine struct{ queue Queue }

// NewEngine is for jobs.Memory and asynqjobs.New.
func NewEngine(q Queue) *Engine { return &Engine{queue: q} }

// Open is for jobs and batch.
func Open(e *Engine) Queue { return e.queue }

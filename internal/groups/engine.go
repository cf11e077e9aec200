package groups

// An Engine keeps jobs, and records in groups. It has no exported fields and no methods: it can be made and opened only in this module.
type Engine struct {
	queue Queue
	store Store
}

// NewEngine is for jobs.Memory and asynqjobs.New.
func NewEngine(q Queue, s Store) *Engine { return &Engine{q, s} }

// Open is for jobs and batch.
func Open(e *Engine) Queue { return e.queue }

// OpenStore is for batch.
func OpenStore(e *Engine) Store { return e.store }

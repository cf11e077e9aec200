package jobs_test

import (
	"context"
	"testing"

	"github.com/gresil/gresil/outbound/jobs"
)

// A job in memory, from Enqueue to the end of its attempt.
func BenchmarkMemoryJob(b *testing.B) {
	done := make(chan struct{}, 1)
	r, err := jobs.New(jobs.Config{Queues: map[string]jobs.Queue{"q": {Handler: func(context.Context, jobs.Job) error {
		done <- struct{}{}
		return nil
	}}}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Enqueue(ctx, jobs.Job{Queue: "q"}); err != nil {
			b.Fatal(err)
		}
		<-done
	}
	cancel()
	<-ended
}

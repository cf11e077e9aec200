package jobs_test

import (
	"testing"
	"testing/synctest"

	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/jobstest"
)

func TestMemoryIsAnEngine(t *testing.T) {
	t.Parallel()
	for name, test := range jobstest.All() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, jobs.NewMemory(0)) })
		})
	}
}

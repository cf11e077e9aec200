package jobs_test

import (
	"testing"
	"testing/synctest"

	"github.com/gresil/gresil/internal/jobstest"
	"github.com/gresil/gresil/outbound/jobs"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	for name, test := range jobstest.Tests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, jobs.Memory()) })
		})
	}
}

package batch_test

import (
	"testing"

	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/batch/batchtest"
)

func TestMemoryIsAStore(t *testing.T) {
	t.Parallel()
	batchtest.Run(t, func(*testing.T) batch.Store { return batch.NewMemory() })
}

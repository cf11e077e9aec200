package asynqjobs

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups/groupstest"
	"github.com/gresil/gresil/internal/redistest"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	t.Cleanup(func() { _ = client.Close() })
	groupstest.Run(t, &store{redis: client}, time.Sleep) // by the clock of the server
}

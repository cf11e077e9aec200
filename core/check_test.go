package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
)

func TestPipelineCheckTellsOfEveryPairThatIsInverted(t *testing.T) {
	t.Parallel()
	var (
		trace  []string
		r      = core.Must(retry.New(retry.Config{Name: "r"}))
		l      = core.Must(ratelimit.New(ratelimit.Config{Name: "l"}))
		b      = core.Must(breaker.New(breaker.Config{Name: "b"}))
		each   = core.Must(timeout.New(timeout.Config{Name: "each", Limit: time.Second}))
		total  = core.Must(timeout.New(timeout.Config{Name: "total"}))
		places = core.Must(bulkhead.New(bulkhead.Config{Name: "p"}))
		mine   = &traced{"mine", 1, &trace}
	)
	for _, c := range []struct {
		order []core.Mechanism
		want  []string
	}{
		{nil, nil},
		{[]core.Mechanism{total, r, l, b, each}, nil},
		{[]core.Mechanism{b, total}, nil},
		{[]core.Mechanism{b, total, l}, []string{"core: *breaker.Breaker(b) is outside *ratelimit.Limiter(l), which belongs outside of it (ratelimit before breaker)"}},
		{[]core.Mechanism{total, l, b}, nil},
		{[]core.Mechanism{r, core.Must(retry.New(retry.Config{})), mine}, nil},
		{[]core.Mechanism{b, mine, r}, []string{"core: *breaker.Breaker(b) is outside *retry.Policy(r), which belongs outside of it (retry before breaker)"}},
		{[]core.Mechanism{r, each, b}, []string{"core: *timeout.Timeout(each) is outside *breaker.Breaker(b), which belongs outside of it (breaker before timeout)"}},
		{[]core.Mechanism{r, each, l}, []string{"core: *timeout.Timeout(each) is outside *ratelimit.Limiter(l), which belongs outside of it (ratelimit before timeout)"}},
		{[]core.Mechanism{b, l, r}, []string{
			"core: *breaker.Breaker(b) is outside *ratelimit.Limiter(l), which belongs outside of it (ratelimit before breaker)",
			"core: *breaker.Breaker(b) is outside *retry.Policy(r), which belongs outside of it (retry before breaker)",
			"core: *ratelimit.Limiter(l) is outside *retry.Policy(r), which belongs outside of it (retry before ratelimit)",
		}},
		{[]core.Mechanism{total, r, places, l, b, each}, nil},
		{[]core.Mechanism{r, l, places, b, each}, nil},
		{[]core.Mechanism{places, r}, []string{"core: *bulkhead.Bulkhead(p) is outside *retry.Policy(r), which belongs outside of it (retry before bulkhead)"}},
		{[]core.Mechanism{b, places}, []string{"core: *breaker.Breaker(b) is outside *bulkhead.Bulkhead(p), which belongs outside of it (bulkhead before breaker)"}},
		{[]core.Mechanism{r, each, places}, []string{"core: *timeout.Timeout(each) is outside *bulkhead.Bulkhead(p), which belongs outside of it (bulkhead before timeout)"}},
	} {
		p, err := core.NewPipeline(c.order...)
		require.NoError(t, err)
		require.Equal(t, c.want, p.Check(), p.String())
	}
	require.Nil(t, (*core.Pipeline)(nil).Check())
	require.Nil(t, new(core.Pipeline).Check())
}

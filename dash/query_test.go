package dash_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
)

func TestQueryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, &core.Registry{}, dash.Config{})
		for query, want := range map[string]string{
			"n=0":                            `query n = "0": must be 1 to 500`,
			"n=501":                          `query n = "501": must be 1 to 500`,
			"n=x":                            `query n = "x": must be 1 to 500`,
			"refresh=-1":                     `query refresh = "-1": must be 0 to 3600`,
			"kind=batch&page=0":              `query page = "0": must be 1 to 1048576`,
			"q=%zz":                          `query: must be valid, and at most 2048 bytes`,
			"q=" + strings.Repeat("x", 3000): `query: must be valid, and at most 2048 bytes`,
		} {
			w := get(h, "/state?"+query)
			require.Equal(t, http.StatusBadRequest, w.Code, query)
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			problem := decode[struct {
				Title, Detail string
				Status        int
			}](t, w)
			require.Equal(t, "Bad Request", problem.Title)
			require.Equal(t, http.StatusBadRequest, problem.Status)
			require.Equal(t, want, problem.Detail)
			require.Equal(t, http.StatusBadRequest, get(h, "/?"+query).Code, query)
		}
	})
}

package dash_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/batch"
)

// A web site whose name resolves to the address of the page can read the response.
func TestAHostThatIsNotServedLearnsNothing(t *testing.T) {
	t.Parallel()
	h := handler(t, &core.Registry{}, dash.Config{Title: "Internal", Hosts: []string{"localhost"}})
	host, err := os.Hostname()
	require.NoError(t, err)
	for _, target := range []string{"/", "/api/state", "/app.css", "/none"} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Host = "evil.example.com"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusMisdirectedRequest, w.Code)
		for _, secret := range []string{host, runtime.Version(), "Internal"} {
			require.NotContains(t, w.Body.String(), secret)
		}
	}
}

func TestURLsInErrorsAreShownWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	f, registry := faked(t, "a")
	h := handler(t, registry, dash.Config{})
	for given, want := range map[string]string{
		`Get "https://u:p@host:8080/x?token=1#a": lost`:        `Get "https://host:8080/x?…": lost`,
		`redis://:se@cret@host:6379/0 refused`:                 `redis://host:6379/0 refused`,
		`postgres://u:se'cret@host/db`:                         `postgres://host/db`,
		`parse "redis://u:se/cret@host": invalid port`:         `parse "redis://…": invalid port`,
		`redis://u:se?cret@host/0`:                             `redis://…`,
		`http://u:p@host/x?mail=a@b&token=secret`:              `http://host/x?…`,
		`Get "https://host/x?token=it's/secret": EOF`:          `Get "https://host/x?…": EOF`,
		`https://host:80/users/a@b.example and http://u@[::1]`: `https://host:80/users/a@b.example and http://[::1]`,
		`https://host:80/x?mail=a@secret then http://h`:        `https://host:80/x?… then http://h`,
		`no URL: // a@b ?c`:                                    `no URL: // a@b ?c`,
	} {
		f.groups[0].LastError = given
		require.Equal(t, want, state(t, h, "").Rows[0]["last_error"])
		require.NotContains(t, get(h, "/").Body.String(), "cret")
	}
}

func TestALongErrorIsCut(t *testing.T) {
	t.Parallel()
	f, registry := faked(t, "a")
	f.groups[0].LastError = strings.Repeat("é", 1<<20)
	h := handler(t, registry, dash.Config{})
	require.Less(t, get(h, "/").Body.Len(), 32<<10)
	require.Less(t, get(h, "/api/state").Body.Len(), 32<<10)
}

// besideAReporter returns the state of a registry with a reporter, "a", and an instance, "b".
func besideAReporter(t *testing.T, instance any) reply {
	t.Helper()
	registry := &core.Registry{}
	put(t, registry, "mine", "a", reporter{})
	put(t, registry, "mine", "b", instance)
	return state(t, handler(t, registry, dash.Config{}), "")
}

// numbers has a figure that JSON has not.
type numbers struct{}

func (numbers) Figures() registry.Figures {
	return registry.Figures{{Name: "mean", N: math.NaN()}}
}

func TestARowThatCannotBeEncodedDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	s := besideAReporter(t, numbers{})
	require.Len(t, s.Rows, 1)
	require.Equal(t, "a", s.Rows[0]["name"])
	require.Len(t, s.Errors, 1)
	require.Equal(t, "b", s.Errors[0].Name)
	require.Contains(t, s.Errors[0].Error, "NaN")
}

type broken struct{}

func (broken) Figures() registry.Figures { panic("no figures") }

func TestAnInstanceWhoseFiguresPanic(t *testing.T) {
	t.Parallel()
	s := besideAReporter(t, broken{})
	require.Len(t, s.Errors, 1)
	require.Equal(t, "panic: no figures", s.Errors[0].Error)
	require.Equal(t, "a", s.Rows[0]["name"])
}

// panics is a batcher whose methods panic.
type panics struct{ *fake }

func (panics) Pause(context.Context, string) error { panic("pause") }

func TestAControlThatPanicsHasFailed(t *testing.T) {
	t.Parallel()
	f := &fake{groups: []batch.GroupInfo{{Option: "a"}}}
	registry := &core.Registry{}
	put(t, registry, "batch", "crm", panics{f})
	var log bytes.Buffer
	h := handler(t, registry, dash.Config{Controls: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := post(h, formType, form("pause", "a"))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "panic: pause")
	require.Contains(t, log.String(), "control failed")
}

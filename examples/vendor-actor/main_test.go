package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/internal/escalating"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	demotest.WrongCommandLines(t, command(), map[string]string{
		"-colour red":                     "flag provided but not defined: -colour",
		"extra":                           `vendor-actor: unexpected argument "extra": there are only flags`,
		"-redis h:1":                      "flag provided but not defined: -redis",
		"-calls many":                     `invalid value "many" for flag -calls: must be a whole number, 1 to 1000000`,
		"-rate 0":                         `invalid value "0" for flag -rate: must be a number, 0.01 to 100000`,
		"-capacity 0":                     `invalid value "0" for flag -capacity: must be a whole number, 1 to 10000`,
		"-limit -1":                       `invalid value "-1" for flag -limit: must be a number, 0 to 100000`,
		"-scale Inf":                      `invalid value "Inf" for flag -scale: must be a number, 0.1 to 1000`,
		"vendor -scale 0":                 `invalid value "0" for flag -scale: must be a number, 0.1 to 1000`,
		"vendor extra":                    `vendor-actor vendor: unexpected argument "extra": there are only flags`,
		"vendor -grace soon":              `invalid value "soon" for flag -grace: parse error`,
		"-calls 5 -scale 10 -json=0 -- x": `unexpected argument "x"`,
	})
}

func TestVendorOverHTTP(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(newVendor(escalating.New(time.Second, 1000)))
	t.Cleanup(srv.Close)
	resp, body := demotest.Request(t, http.MethodGet, srv.URL+"/report?account=a&n=1", http.Header{}, "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.JSONEq(t, `{"account":"a","n":"1"}`, body)
	for _, bad := range []string{"/report", "/report?account=a", "/report?n=1"} {
		resp, _ = demotest.Request(t, http.MethodGet, srv.URL+bad, http.Header{}, "")
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, bad)
	}
	_, body = demotest.Request(t, http.MethodGet, srv.URL+"/judge", http.Header{}, "")
	require.JSONEq(t, `{"arrivals":1,"unique":1,"duplicates":0,"most_sliding":1,"most_fixed":1,"seconds":0,"trips":0,"escalations":0,"worst_penalty_s":0}`, body)
}

func TestRefusalHasBothHeaders(t *testing.T) {
	t.Parallel()
	v := escalating.New(time.Hour, 0.1) // a second is 10, and a pause 150
	for range 100 {
		go func() { _, _ = v.Call(t.Context(), "n") }()
	}
	require.Eventually(t, func() bool { return v.Verdict().Arrivals == 100 }, time.Minute, time.Millisecond)
	srv := httptest.NewServer(newVendor(v))
	t.Cleanup(srv.Close)
	resp, _ := demotest.Request(t, http.MethodGet, srv.URL+"/report?account=a&n=1", http.Header{}, "")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, [2]string{"150", "150000"}, [2]string{resp.Header.Get("Retry-After"), resp.Header.Get("X-Retry-After-Ms")})
	require.Equal(t, "1001", ceil(time.Second+1, time.Millisecond))
}

func TestGresilServesLoad(t *testing.T) {
	t.Parallel()
	r := demotest.Run(t.Context(), t, "-calls 130 -rate 1000 -capacity 60 -limit 50 -scale 2")
	require.Zero(t, r.Code, r)
	require.True(t, r.Is("ok"), r)
	require.Equal(t, []int{130, 130, 0, 0}, r.Nums("served", "arrivals", "trips", "escalations"))
	require.LessOrEqual(t, r.Num("most_sliding"), 100.0)
}

func TestControlBreaksLimit(t *testing.T) {
	t.Parallel()
	var r demotest.Output
	for range 5 { // if the machine is too slow for the load, the run shows nothing
		ctx, tripped := context.WithCancel(t.Context())
		v := escalating.New(time.Second, 2)
		vendor := newVendor(v)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			vendor.ServeHTTP(w, r)
			if v.Verdict().Trips > 0 {
				tripped()
			}
		}))
		r = demotest.Run(ctx, t, "-calls 130 -rate 1000 -scale 2 -algorithm naive -vendor %s", srv.URL)
		srv.Close()
		tripped()
		if !r.Is("ok") {
			break
		}
	}
	require.Zero(t, r.Code, r)
	require.False(t, r.Is("ok"))
	require.Greater(t, r.Num("most_sliding"), 100.0)
	require.Regexp(t, `^interrupted; \d+ of 130 calls were not served; .*trips: 1`, r.Text("problem"))
}

func TestSummaryHasAllNames(t *testing.T) {
	t.Parallel()
	r := demotest.Run(t.Context(), t, "-calls 5 -scale 10")
	require.Zero(t, r.Code, r)
	for name, want := range map[string]string{
		"algorithm": `"gresil"`, "calls": "5", "rate": "120", "capacity": "8", "limit": "0", "scale": "10",
		"served": "5", "failed": "0", "judged": "true", "ok": "true",
		"arrivals": "5", "unique": "5", "duplicates": "0", "trips": "0", "escalations": "0", "worst_penalty_s": "0",
	} {
		require.Equal(t, want, string(r.Figures[name]), name)
	}
	for _, name := range []string{"most_sliding", "most_fixed", "seconds"} {
		require.Positive(t, r.Num(name), name)
	}
	require.Len(t, r.Figures, 19)
	require.Regexp(t, `^vendor: http://127.0.0.1:\d+\n`, r.Stderr)
}

func TestTextOfOneAlgorithm(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	args := []string{"-calls", "5", "-scale", "10", "-algorithm", "gresil"}
	require.Zero(t, run(t.Context(), args, &stdout, &stderr), &stderr)
	require.Regexp(t, `^The vendor permits 100 calls in any second, .* 5 calls come, 120 a second; a second is 1/10 of a real one.

 +gresil +
served +5 +Calls that the vendor has answered with 200.
(\w+ +[\d.]+ +[A-Z].*\.
)+ok: all calls were served, and no limit was broken
$`, stdout.String())
}

// However the program ends, a connection to its vendor ends too.
func TestVendorEndsWithProgram(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-json", "-rate", "600")
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			var stdout strings.Builder
			cmd.Stdout = &stdout
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(stderr)
			require.True(t, lines.Scan())
			addr, ok := strings.CutPrefix(lines.Text(), "vendor: http://")
			require.True(t, ok, lines.Text())
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			require.NoError(t, err)
			_, err = io.WriteString(conn, "GET /judge HTTP/1.1\r\nHost: vendor\r\n\r\n")
			require.NoError(t, err)
			require.True(t, lines.Scan(), "it is under way")
			require.NoError(t, cmd.Process.Signal(sig))
			_, _ = io.Copy(io.Discard, stderr)
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Wait(), &exit)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err = io.Copy(io.Discard, conn)
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded))
			require.NoError(t, conn.Close())
			if sig == os.Interrupt {
				require.Equal(t, 1, exit.ExitCode(), "not all were served")
				require.Contains(t, stdout.String(), `"judged":true`)
				require.Contains(t, stdout.String(), `"problem":"interrupted; `)
			}
		})
	}
}

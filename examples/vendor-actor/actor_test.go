package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demotest"
)

const pattern = "GET /report"

func algorithms() []string { return []string{"gresil", "naive"} }

// foreign returns a vendor that serves all calls.
func foreign() *demotest.Foreign {
	return &demotest.Foreign{Call: func(http.ResponseWriter, *http.Request, int, []byte) {}}
}

func TestVendorWithoutJudge(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			f := foreign()
			r := demotest.Run(t.Context(), t, "-calls 9 -rate 1000 -vendor %s -algorithm %s", f.Start(t, pattern), algorithm)
			require.Zero(t, r.Code, r)
			require.False(t, r.Is("judged"))
			require.Equal(t, []int{9}, r.Nums("served"))
			require.NotContains(t, r.Figures, "arrivals")
			require.NotContains(t, r.Figures, "trips")
			ns := map[string]bool{}
			seen, _ := f.Seen()
			for _, call := range seen {
				m := regexp.MustCompile(`^account=[\w-]+&n=(\d+)$`).FindStringSubmatch(call.URL.RawQuery)
				require.NotNil(t, m, call.URL)
				ns[m[1]] = true
			}
			require.Len(t, seen, 9)
			require.Len(t, ns, 9, "each call has an n of its own")
		})
	}
}

func TestFiguresAreThoseOfVendor(t *testing.T) {
	t.Parallel()
	for trips, code := range map[string]int{"0": 0, "2": 1} {
		f := foreign()
		f.Figures = `{"arrivals":7,"unique":5,"duplicates":2,"most_sliding":3,"most_fixed":2,"seconds":1.25,"trips":` + trips +
			`,"escalations":0,"worst_penalty_s":0.5,"other":1}`
		r := demotest.Run(t.Context(), t, "-calls 2 -rate 1000 -scale 3 -vendor %s", f.Start(t, pattern))
		require.Equal(t, code, r.Code, r)
		require.Equal(t, []int{7, 5, 2, 3, 2, 0}, r.Nums("arrivals", "unique", "duplicates", "most_sliding", "most_fixed", "escalations"))
		require.Equal(t, [3]string{"1.25", trips, "0.5"},
			[3]string{string(r.Figures["seconds"]), string(r.Figures["trips"]), string(r.Figures["worst_penalty_s"])})
		require.NotContains(t, r.Figures, "other")
	}
}

// X-Retry-After-Ms wins, and the scale changes neither header.
func TestPauseOfVendor(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms() {
		for header, want := range map[string]time.Duration{"Retry-After: 1": time.Second, "Retry-After: 3600, X-Retry-After-Ms: 300": 300 * time.Millisecond} {
			t.Run(algorithm+"/"+header, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var at [3]time.Time
				f := &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, n int, _ []byte) {
					mu.Lock()
					defer mu.Unlock()
					at[n] = time.Now()
					for h := range strings.SplitSeq(header, ", ") {
						name, value, _ := strings.Cut(h, ": ")
						w.Header().Set(name, value)
					}
					if n == 1 {
						w.WriteHeader(http.StatusTooManyRequests)
					}
				}}
				r := demotest.Run(t.Context(), t, "-calls 1 -scale 100 -vendor %s -algorithm %s", f.Start(t, pattern), algorithm)
				require.Zero(t, r.Code, r)
				seen, _ := f.Seen()
				require.Len(t, seen, 2)
				require.Equal(t, seen[0].URL, seen[1].URL, "a repetition keeps its n")
				require.GreaterOrEqual(t, at[2].Sub(at[1]), want)
				require.Less(t, at[2].Sub(at[1]), 100*want)
			})
		}
	}
}

// None of 50 calls is sent in one of three pauses, and none fails.
func TestNothingIsSentInPause(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var until time.Time
	refused, inside := 0, 0
	f := &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, _ int, _ []byte) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Before(until) {
			inside++
		} else if refused < 3 {
			refused++
			until = now.Add(time.Second)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}}
	r := demotest.Run(t.Context(), t, "-calls 50 -rate 1000 -capacity 1 -vendor %s", f.Start(t, pattern))
	require.Zero(t, r.Code, r)
	require.Equal(t, []int{50, 0}, r.Nums("served", "failed"))
	require.Equal(t, [2]int{3, 0}, [2]int{refused, inside})
}

func TestOtherAnswersFailCall(t *testing.T) {
	t.Parallel()
	f := &demotest.Foreign{Call: func(w http.ResponseWriter, r *http.Request, _ int, _ []byte) {
		if r.FormValue("n") == "2" {
			w.WriteHeader(http.StatusTeapot)
		}
	}}
	url := f.Start(t, pattern)
	r := demotest.Run(t.Context(), t, "-calls 3 -rate 1000 -vendor %s", url)
	require.Equal(t, 1, r.Code, r)
	require.Equal(t, []int{2}, r.Nums("served"))
	want := "1 of 3 calls were not served; 1 failed, the first: the vendor at " + strings.TrimSuffix(url, "/") + " answers 418 I'm a teapot to a call"
	require.Equal(t, want, r.Text("problem"))
}

func TestUnreachableVendor(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms() {
		const args = "-vendor http://%s -algorithm %s"
		r := demotest.Run(t.Context(), t, args, demotest.Unreachable, algorithm)
		require.Equal(t, 1, r.Code, r)
		require.Zero(t, r.Num("served"))
		require.False(t, r.Is("judged"))
		require.Contains(t, r.Text("problem"), "no answer from http://"+demotest.Unreachable+": dial tcp")
	}
}

// It could wait for hours.
func TestControlGivesUpLongPause(t *testing.T) {
	t.Parallel()
	f := &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, _ int, _ []byte) {
		w.Header().Set("Retry-After", "61")
		w.WriteHeader(http.StatusTooManyRequests)
	}}
	r := demotest.Run(t.Context(), t, "-calls 2 -rate 1000 -algorithm naive -vendor %s", f.Start(t, pattern))
	require.Zero(t, r.Code, r)
	require.Equal(t, []int{0, 2}, r.Nums("served", "failed"))
	require.Contains(t, r.Text("problem"), "2 failed, the first: the vendor refuses the call")
}

// The first call is on its way, and is waited for.
func TestInterruptDrains(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := make(chan struct{})
	f := &demotest.Foreign{Call: func(http.ResponseWriter, *http.Request, int, []byte) {
		cancel()
		<-release
	}}
	f.Figures = `{"arrivals":1}`
	context.AfterFunc(ctx, func() { time.AfterFunc(100*time.Millisecond, func() { close(release) }) })
	var stdout bytes.Buffer
	require.Equal(t, 1, run(ctx, []string{"-json", "-capacity", "1", "-vendor", f.Start(t, pattern)}, &stdout, io.Discard))
	var r demotest.Output
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r.Figures))
	require.Equal(t, []int{1, 1, 0}, r.Nums("served", "arrivals", "failed"))
	require.Equal(t, "interrupted; 5999 of 6000 calls were not served", r.Text("problem"))
}

func TestCallsAreOfferedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, start := &actor{config: config{calls: 100, rate: 7, scale: 3}}, time.Now()
		a.offer(t.Context(), func(_ context.Context, _ string, n int) error {
			require.InDelta(t, float64(n-1)/21, time.Since(start).Seconds(), 1e-6)
			time.Sleep(time.Hour) // other calls do not wait for this one
			if n == 50 {
				return errors.New("of 50")
			}
			return nil
		})
		require.Equal(t, [2]int{99, 1}, [2]int{a.served, a.failed})
		require.EqualError(t, a.first, "of 50")
	})
}

package known_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gresil/gresil/client"
)

// Whatever a response says, no function panics, shortens a Retry-After, asks for a negative pause, contradicts itself, or takes
// a word of the vendor's for the reason.
func FuzzKnown(f *testing.F) {
	all, limits, reasons := vendors(), []string{""}, []string{""}
	for _, v := range all {
		for _, r := range v.rows {
			f.Add(r.status, strings.Join(r.fields, "\n"), r.body)
			limits, reasons = append(limits, r.want.Limit), append(reasons, r.want.Reason)
		}
	}
	f.Add(429, "Retry-After: 9223372037", `{"retry_after":-1e999,"error":{"details":[{"retryDelay":"-9223372037s"}]}}`)
	f.Add(429, "Retry-After-Ms: 1e3\nRetry-After: 1", `[[[[`)
	f.Fuzz(func(t *testing.T, status int, fields, body string) {
		r := row{status: status, fields: strings.Split(fields, "\n"), body: body}
		for name, v := range all {
			resp := r.response()
			s := v.classify(resp, nil)
			if s.Pause < 0 || s.Executed || s.Permanent && s.Pause != 0 || len(s.Quotas) > 3 {
				t.Fatalf("%s: %+v", name, s)
			}
			if s.Limited && s.Busy || s.Limited && s.Permanent || s.Busy && s.Permanent {
				t.Fatalf("%s: more than one kind of refusal: %+v", name, s)
			}
			for _, q := range s.Quotas {
				if q.Remaining < 0 || q.Reset < 0 {
					t.Fatalf("%s: %+v", name, s)
				}
			}
			if !slices.Contains(reasons, s.Reason) && !strings.HasPrefix(s.Reason, "code ") {
				t.Fatalf("%s: the reason %q", name, s.Reason)
			}
			if !slices.Contains(limits, s.Limit) && name != "GitHub" { // which sends the names of its resources
				t.Fatalf("%s: the limit %q", name, s.Limit)
			}
			h := http.Header{}
			for _, field := range []string{"Retry-After", "Retry-After-Ms", "Date"} {
				h[field] = resp.Header[field]
			}
			said, _ := client.RetryAfter(&http.Response{StatusCode: status, Header: h})
			fewer := name == "AzureOpenAI" && resp.Header["X-Ms-Retry-After-Ms"] != nil // goes before Retry-After
			if s.Limited && s.Pause < said && !fewer {
				t.Fatalf("%s: a pause of %v, where Retry-After says %v", name, s.Pause, said)
			}
			if again, err := io.ReadAll(resp.Body); err != nil || string(again) != body {
				t.Fatalf("%s: the body is %q, %v", name, again, err)
			}
		}
	})
}

package timeout_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

// The limit of an attempt includes the time of its upload. Where uploads may take long,
// limit the time from the end of the request to the headers of the response.
func ExampleConfig_responseHeader() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, " bytes")
	}))
	defer srv.Close()

	attempt := core.Must(timeout.NewAttempt(timeout.Config{Limit: 10 * time.Second}))
	httpClient := &http.Client{Transport: attempt.Transport(nil)}

	ctx := attempt.Override(context.Background(), func(c *timeout.Config) { // this upload
		c.Limit, c.ResponseHeader = -1, 5*time.Second
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL, strings.NewReader("a large file"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	fmt.Println(string(text))
	// Output: 12 bytes
}

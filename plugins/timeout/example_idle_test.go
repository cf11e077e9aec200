package timeout_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

func ExampleConfig_bodyIdle() {
	attempt := core.Must(timeout.NewAttempt(timeout.Config{BodyIdle: 10 * time.Millisecond}))
	base := stub(func(req *http.Request) (*http.Response, error) { // a server that sends half, and no more
		half, stalls := strings.NewReader("half"), stops{drip{ctx: req.Context()}}
		return answer(req, io.NopCloser(io.MultiReader(half, &stalls))), nil
	})
	resp, err := (&http.Client{Transport: client.New(base, attempt)}).Get("http://example.test/")
	if err != nil {
		panic(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	fmt.Printf("%s\n%v\n", text, err)
	// Output:
	// half
	// timeout: "attempt" took longer than 10ms
}

package breaker_test

import (
	"fmt"
	"io"
	"net/http"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
)

func ExampleClientConfig_judgeBody() {
	breakers := core.Must(breaker.NewClient(breaker.ClientConfig{Window: 2, JudgeBody: true}))
	breaks := halves(io.ErrUnexpectedEOF) // a server that answers 200, and hangs up within the body
	httpClient := &http.Client{Transport: client.New(breaks, breakers)}
	for range 2 {
		resp, err := httpClient.Get("https://api.example.com/export")
		if err != nil {
			panic(err)
		}
		_, err = io.ReadAll(resp.Body)
		fmt.Println(resp.StatusCode, err)
		_ = resp.Body.Close()
	}
	fmt.Println(breakers.For("api.example.com").State())
	// Output:
	// 200 unexpected EOF
	// 200 unexpected EOF
	// open
}

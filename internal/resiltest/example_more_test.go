package resiltest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gresil/gresil/internal/resiltest"
)

// The script of a running test can be replaced, and be a handler.
func ExampleScript_Set() {
	script := resiltest.NewScript(resiltest.Reply{Status: 503})
	for _, replies := range [][]resiltest.Reply{nil, {{Body: "up again"}}} {
		if replies != nil {
			script.Set(replies...)
		}
		w := httptest.NewRecorder()
		script.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		fmt.Printf("%d %q\n", w.Code, w.Body)
	}
	fmt.Println(len(script.Waits()), "pause between attempts")
	// Output:
	// 503 ""
	// 200 "up again"
	// 1 pause between attempts
}

// A wrapped body counts the bytes that the client under test read, and how often it was closed.
func ExampleWrapBody() {
	body := resiltest.WrapBody(io.NopCloser(strings.NewReader("hello")))
	_, _ = io.ReadAll(body)
	_ = body.Close()
	fmt.Println(body.BytesRead(), body.Closes())
	// Output: 5 1
}

// Two ends of a protocol of your own, in memory.
func ExampleNetwork_DialContext() {
	network := resiltest.NewNetwork()
	listener := network.Listen("api.test:80")
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "hello")
		_ = conn.Close()
	}()
	var conn net.Conn
	conn, err := network.DialContext(context.Background(), "tcp", "api.test:80")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := io.ReadAll(conn)
	fmt.Println(string(text), err, listener.Close())
	// Output: hello <nil> <nil>
}

// Command demo-server is a chi service with limited, flaky, slow and unstable
// routes, for the demo client and for curl:
//
//	GET  /hello                -limit in each -period, for an X-API-Key, otherwise for an IP
//	GET  /search               5 a second, counted apart
//	POST /upload               100 KiB a minute, by Content-Length
//	GET  /flaky?id=ID&fail=N   503 for the first N requests of the id
//	GET  /unstable             500 between POST /unstable/down and POST /unstable/up
//	GET  /slow?d=2s            at most 30s
//	GET  /health, GET /metrics
//
// Servers with the same -redis HOST:PORT share their limits.
package main

import (
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demoserver"
)

func main() { demo.Command{Whole: demoserver.Run}.Main() }

// Command demo-client shows the plugins at work.
//
//	demo-client [scenarios] [-target URL] [-scenario NAME]
//	demo-client cluster [-redis HOST:PORT] [-mode strict|coalesced] [-shared=false] [-duration D] [-limit N] [-servers N]
//
// The scenarios are requests to a demo server: its own, unless it is given the URL of one.
//
// The cluster shows that a limit in Redis holds for several servers together. It starts several demo servers and a Redis,
// unless it is given one. Its clients ask all servers for more than the limit, and it counts what passed in the fullest second.
// The servers of the control have a limit each, in memory: three let three times as much through.
//
// The exit code is 0 if everything happened as it should, 1 if it did not, as when a second had more than the limit, or none
// had about as much, and 2 for a wrong command line.
package main

import (
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demoserver"
)

func main() { command().Main() }

func command() demo.Command {
	return demo.Command{Whole: runScenarios, Parts: map[string]demo.Part{
		"scenarios": runScenarios, "cluster": runCluster, "server": demoserver.Run,
	}}
}

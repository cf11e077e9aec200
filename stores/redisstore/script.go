package redisstore

import (
	"crypto/sha1" //nolint:gosec // it is how the server names scripts
	"embed"
	"encoding/hex"
	"strings"
	"sync"
)

//go:embed lua
var files embed.FS

// A script is known to the server by its hash.
type script struct {
	text, sha string
	arg       any // sha, as an argument of commands
}

func newScript(paths ...string) *script {
	var all strings.Builder
	for _, path := range paths {
		b, err := files.ReadFile("lua/" + path)
		if err != nil {
			panic(err) // it is embedded
		}
		all.Write(b)
	}
	text := all.String()
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	sha := hex.EncodeToString(sum[:])
	return &script{text, sha, sha}
}

// algorithms are parts of decide, in the order of the bits of a set.
var algorithms = [...]string{"bucket", "window", "sliding", "counter"} //nolint:gochecknoglobals // a constant table

const (
	algBucket = 1 << iota
	algWindow
	algSliding
	algCounter
)

//nolint:gochecknoglobals // constants
var (
	bucketScript = sync.OnceValue(func() *script { return newScript("bucket.lua") })
	windowScript = sync.OnceValue(func() *script { return newScript("window.lua") })
	beatScript   = sync.OnceValue(func() *script { return newScript("instances.lua") })
	decideMu     sync.Mutex
	decides      [1 << len(algorithms)]*script
)

// decideScript is the script with these algorithms.
func decideScript(set uint) *script {
	decideMu.Lock()
	defer decideMu.Unlock()
	if decides[set] == nil {
		paths := []string{"decide/head.lua"}
		for i, name := range algorithms {
			if set&(1<<i) != 0 {
				paths = append(paths, "decide/"+name+".lua")
			}
		}
		decides[set] = newScript(append(paths, "decide/tail.lua")...)
	}
	return decides[set]
}

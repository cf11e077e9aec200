package redisstore

import (
	"crypto/sha1" //nolint:gosec // the server identifies scripts by it
	"embed"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"
)

//go:embed lua
var files embed.FS

// A script is a Lua script, which the server identifies by its hash.
type script struct {
	text, sha string
	arg       any // sha, as an argument of commands
}

var indents = regexp.MustCompile(`(?m)^ *(--.*\n)?`)

// read returns the text of files, without lines of comment and indents.
func read(paths ...string) string { return indents.ReplaceAllString(source(paths...), "") }

func source(paths ...string) string {
	var all strings.Builder
	for _, path := range paths {
		b, err := files.ReadFile("lua/" + path)
		if err != nil {
			panic(err) // it is embedded
		}
		all.Write(b)
	}
	return all.String()
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	sha := hex.EncodeToString(sum[:])
	return &script{text, sha, sha}
}

// algorithms are the files of account, in the order of the bits of a set. The last one of each is also the name of its part in lua/take.
//
//nolint:gochecknoglobals // a constant table
var algorithms = [...][]string{{"bucket.lua"}, {"window.lua"}, {"entry.lua", "segments.lua"}, {"countermath.lua", "counter.lua"}}

const (
	algBucket = 1 << iota
	algWindow
	algSegments
	algCounter

	algAll = 1<<iota - 1
)

//nolint:gochecknoglobals // constants
var (
	beatScript = sync.OnceValue(func() *script { return newScript(read("now.lua", "names.lua", "instances.lua")) })
	accountsMu sync.Mutex
	accounts   [1 << len(algorithms)]*script
)

// accountScript returns the script with the algorithms of set.
func accountScript(set uint) *script {
	accountsMu.Lock()
	defer accountsMu.Unlock()
	if accounts[set] == nil {
		paths := []string{"now.lua", "names.lua", "head.lua"}
		for i, of := range algorithms {
			if set&(1<<i) != 0 {
				paths = append(paths, of...)
			}
		}
		accounts[set] = newScript(read(append(paths, "account.lua")...))
	}
	return accounts[set]
}

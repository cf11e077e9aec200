package redisbatch

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how the server names scripts
	"embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
)

//go:embed lua
var files embed.FS

// A script is known to the server by its hash.
type script struct{ text, sha string }

// newScript makes a script of head.lua and one more file.
func newScript(name string) *script {
	read := func(name string) string { return string(core.Must(files.ReadFile("lua/" + name + ".lua"))) }
	text := read("head") + read(name)
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return &script{text, hex.EncodeToString(sum[:])}
}

// A once is a command that is sent once: a script whose reply was lost might have run.
type once struct{ *redis.SliceCmd }

// NoRetry is true.
func (once) NoRetry() bool { return true }

// run runs a script with the keys and arguments, and sends its text if the server does not know it.
func (s *script) run(ctx context.Context, client redis.UniversalClient, args []any) ([]any, error) {
	send := func(name, text string) ([]any, error) {
		args[0], args[1] = name, text
		cmd := redis.NewSliceCmd(ctx, args...)
		cmd.SetFirstKeyPos(3)
		cmd.SetStepCount(1)                // or the client of a Cluster asks the server for it, by COMMAND
		_ = client.Process(ctx, once{cmd}) // the command has the error
		return cmd.Result()
	}
	reply, err := send("evalsha", s.sha)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = send("eval", s.text)
	}
	return reply, err
}

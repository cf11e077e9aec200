package gate_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/stores/redisstore"
)

// A redisServer is a Redis in memory, for the bubbles of testing/synctest. It runs scripts, with the few commands that gate.lua calls.
type redisServer struct {
	half time.Duration // of a round trip
	down atomic.Bool

	mu     sync.Mutex
	state  *lua.LState
	script *lua.LFunction
	values map[string]stored
	tables map[string]*lua.LTable // by the text that stands for them in values
	ran    []string               // the operations, each as "process: operation"
}

type stored struct {
	text  string
	until time.Time
}

// newRedis returns a server at a distance.
func newRedis(trip time.Duration) *redisServer {
	r := &redisServer{half: trip / 2, state: lua.NewState(), values: map[string]stored{}, tables: map[string]*lua.LTable{}}
	r.state.RegisterModule("redis", map[string]lua.LGFunction{"call": r.call})
	r.state.RegisterModule("cmsgpack", map[string]lua.LGFunction{"pack": r.pack, "unpack": r.unpack})
	return r
}

// log returns the operations so far. A report that begins holds is a "hold".
func (r *redisServer) log() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ran)
}

func (r *redisServer) call(l *lua.LState) int {
	command, key := l.CheckString(1), l.CheckString(2)
	old := r.values[key]
	if command == "GET" && time.Now().Before(old.until) {
		l.Push(lua.LString(old.text))
		return 1
	}
	_, table, _ := strings.Cut(old.text, "#")
	delete(r.tables, table)
	delete(r.values, key)
	if command == "SET" { // with PX
		r.values[key] = stored{l.CheckString(3), time.Now().Add(time.Duration(l.CheckInt64(5)) * time.Millisecond)}
	}
	return 0
}

func (r *redisServer) pack(l *lua.LState) int {
	address := fmt.Sprintf("%p", l.CheckTable(1))
	r.tables[address] = l.CheckTable(1)
	l.Push(lua.LString("#" + address))
	return 1
}

func (r *redisServer) unpack(l *lua.LState) int {
	l.Push(copied(l, r.tables[l.CheckString(1)[1:]]))
	return 1
}

// copied copies a table, and those in it.
func copied(l *lua.LState, v lua.LValue) lua.LValue {
	from, ok := v.(*lua.LTable)
	if !ok {
		return v
	}
	to := l.NewTable()
	from.ForEach(func(k, v lua.LValue) { to.RawSet(k, copied(l, v)) })
	return to
}

// A replyError is an error that the server returns.
type replyError string

func (e replyError) Error() string { return string(e) }

func (replyError) RedisError() {}

// run runs a script, always the same one.
func (r *redisServer) run(text string, keys, args []any) (reply []int64, err error) {
	if r.script == nil {
		r.script = core.Must(r.state.LoadString(text))
	}
	for name, list := range map[string][]any{"KEYS": keys, "ARGV": args} {
		table := r.state.NewTable()
		for _, arg := range list {
			table.Append(lua.LString(arg.(string)))
		}
		r.state.SetGlobal(name, table)
	}
	r.state.Push(r.script)
	if err := r.state.PCall(0, 1, nil); err != nil {
		return nil, err
	}
	result := r.state.Get(-1).(*lua.LTable)
	r.state.Pop(1)
	result.ForEach(func(_, n lua.LValue) { reply = append(reply, int64(n.(lua.LNumber))) })
	return reply, nil
}

// A process has a store of its own. The client of that sends nothing, but runs scripts on the server.
type process struct {
	*redisServer

	name  int
	store *redisstore.Store
	cut   atomic.Bool // nothing of the process arrives
}

// process returns a process by its number.
func (r *redisServer) process(name int) *process {
	p := &process{redisServer: r, name: name}
	// A store uses such a client as it is, with its hooks. It would look up a host that is no IP address.
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true, Protocol: 2})
	client.AddHook(p)
	p.store = core.Must(redisstore.New(client, redisstore.Config{}))
	return p
}

// OpenGate opens the same state for all gates.
func (p *process) OpenGate(string) (gatestore.Table, error) { return p.store.OpenGate("vendor") }

func (*process) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*process) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook is the way to the server, a script, and the way back.
func (p *process) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		words := cmd.Args() // EVAL, the script, the number of keys, these, and arguments, the first of which is the time
		if words[0] == "evalsha" {
			return replyError("NOSCRIPT")
		}
		time.Sleep(p.half)
		if p.down.Load() || p.cut.Load() {
			return errors.New("connection refused")
		}
		p.mu.Lock()
		n, _ := strconv.Atoi(fmt.Sprint(words[2]))
		keys, args := words[3:3+n], slices.Clone(words[3+n:])
		args[0] = fmt.Sprint(time.Now().UnixMicro()) // that of the bubble
		operation := args[1]
		if operation == "report" && args[4] != "0" {
			operation = "hold"
		}
		p.ran = append(p.ran, fmt.Sprintf("%d: %s", p.name, operation))
		reply, err := p.run(words[1].(string), keys, args)
		p.mu.Unlock()
		time.Sleep(p.half)
		inner := reflect.ValueOf(cmd).Elem().FieldByName("Cmder").Interface() // of the store's command
		inner.(*redis.IntSliceCmd).SetVal(reply)
		return err
	}
}

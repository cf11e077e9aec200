package redisstore

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// replies is a server that says one thing to all that is not a greeting; nothing at all where
// that is empty.
func replies(t *testing.T, says string, asked *atomic.Int64) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	serve := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		for r := bufio.NewReader(conn); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
			var words []string
			for range n {
				line, _ := r.ReadString('\n')
				size, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
				word := make([]byte, size+2)
				if _, err := io.ReadFull(r, word); err != nil {
					return
				}
				words = append(words, strings.ToLower(string(word[:size])))
			}
			if strings.HasPrefix(words[0], "eval") {
				asked.Add(1)
			}
			switch answer := says; {
			case words[0] == "hello" || words[0] == "client":
				answer = "-ERR unknown command"
				fallthrough
			case answer != "":
				_, _ = io.WriteString(conn, answer+"\r\n")
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

func TestErrorReplies(t *testing.T) {
	t.Parallel()
	for says, c := range map[string]struct {
		want   string
		unsent bool // it was certainly not decided
	}{
		"-LOADING Redis is loading the dataset in memory":                                {"is loading its data", true},
		"-READONLY You can't write against a read only replica.":                         {"is a replica", true},
		"-OOM command not allowed when used memory > 'maxmemory'.":                       {"out of memory", true},
		"-MOVED 3999 127.0.0.1:6381":                                                     {"belongs to a cluster", true},
		"-CLUSTERDOWN Hash slot not served":                                              {"cluster is not complete", true},
		"-NOPERM this user has no permissions to run the 'evalsha' command":              {"lacks a permission", true},
		"-NOAUTH Authentication required.":                                               {"refuses the user or password", true},
		"-WRONGTYPE k holds a value that is none of a limit":                             {"another program has written to the key", true},
		"-ERR max number of clients reached":                                             {"the server failed", false},
		"-MISCONF Redis is configured to save RDB snapshots, but it is unable to do so.": {"the server failed", false},
		"": {"no reply in time", false},
	} {
		modes(t, func(t *testing.T, mode Mode) {
			t.Helper()
			var asked atomic.Int64
			client := redis.NewClient(&redis.Options{Addr: replies(t, says, &asked), DisableIdentity: true})
			defer func() { _ = client.Close() }()
			timeout := 100 * time.Millisecond
			if says != "" { // it is the reply that ends a decision, however slow the machine is
				timeout = patient
			}
			s := newStore(t, client, Config{Mode: mode, Timeout: timeout})
			l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, OnStoreError: ratelimit.Deny})
			require.NoError(t, err)
			for range 3 {
				asked.Store(0)
				_, err = l.Take(context.Background(), "k", 1)
				require.ErrorIs(t, err, ratelimit.ErrStore)
				require.NotErrorIs(t, err, core.ErrRejected)
				require.ErrorContains(t, err, c.want)
				_, unsent := limits.IsUnsent(err)
				if says == "-ERR max number of clients reached" { // which go-redis would repeat
					require.EqualValues(t, 1, asked.Load(), "a take is sent once")
				}
				if asked.Load() > 0 || c.unsent { // otherwise a busy machine might have made no connection in time
					require.Equal(t, c.unsent, unsent, err)
				}
			}
		})
	}
}

// TestRefusedWrites: what the server says to a batch is said to all in it, and none of them counts.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		client := startServer(t).client(t)
		table := open(t, newStore(t, client, Config{Mode: mode}), "t")
		all := kinds(10, time.Hour)
		for name, l := range all {
			take(t, table, name, l, 1)
		}
		for _, c := range []struct {
			says     string
			from, to []any
		}{
			{"out of memory", []any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}},
			{"is a replica", []any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		} {
			require.NoError(t, client.Do(ctx, c.from...).Err())
			var wg sync.WaitGroup
			for name, l := range all {
				id := planned(t, table, l)
				wg.Go(func() {
					_, err := table.Apply(ctx, name, id, limits.Op{Cost: 1})
					if err == nil || !errors.Is(err, ErrUnavailable) && !strings.Contains(err.Error(), c.says) {
						t.Errorf("%s, %s: %v", c.says, name, err)
					}
				})
			}
			wg.Wait()
			require.NoError(t, client.Do(ctx, c.to...).Err())
			decides(t, table, "other", planned(t, table, ratelimit.PerHour(9)))
		}
		for name, l := range all {
			require.EqualValues(t, 9, take(t, table, name, l, 0).Remaining, name)
		}
	})
}

package roundtrip

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Conns are the connections of requests that can be stopped once they have one. The zero value is ready.
//
// net/http gives a connection of HTTP/1 to the next request before the one before it has its answer, if that has no body. If the next
// one is stopped right then, which closes the connection, the answer is lost, and the request before it fails though it was executed.
type Conns struct {
	mu    sync.Mutex
	users map[net.Conn]*User
}

// A User is a request. Its methods can be called by several goroutines.
type User struct {
	all   *Conns
	http1 atomic.Bool
	over  chan struct{}
	conns []net.Conn // guarded by the lock of all, as ended
	ended bool
}

// answerTime is how long a request waits for an answer that is here already: its goroutines only have to run.
const answerTime = 100 * time.Millisecond

// Begin returns the user for a request, which ends with End.
func (c *Conns) Begin() *User { return &User{all: c, over: make(chan struct{})} }

// Got is for GotConn of httptrace. It returns the user that had the connection before and has no answer yet, or nil.
func (u *User) Got(conn net.Conn) (before *User) {
	u.all.mu.Lock()
	defer u.all.mu.Unlock()
	if u.all.users == nil {
		u.all.users = map[net.Conn]*User{}
	}
	if before = u.all.users[conn]; conn == nil || before == u || u.ended {
		return nil
	}
	u.all.users[conn] = u
	u.conns = append(u.conns, conn)
	return before
}

// WroteHeaderField is for the hook of httptrace. It tells HTTP/1 from HTTP/2, whose requests share a connection.
func (u *User) WroteHeaderField(name string, _ []string) {
	if name == "Host" {
		u.http1.Store(true)
	}
}

// Answer waits for the answer to the request of u. It does nothing for nil.
func (u *User) Answer() {
	if u == nil || !u.http1.Load() {
		return
	}
	late := time.NewTimer(answerTime)
	defer late.Stop()
	select {
	case <-u.over:
	case <-late.C:
	}
}

// End says that the request has its answer, or has failed.
func (u *User) End() {
	u.all.mu.Lock()
	defer u.all.mu.Unlock()
	for _, conn := range u.conns {
		if u.all.users[conn] == u {
			delete(u.all.users, conn)
		}
	}
	u.ended = true
	close(u.over)
}

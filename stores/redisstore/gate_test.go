package redisstore

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/quiettest"
)

// gateRules are steps with what the server answers. A step begins with the process, except those that are the test's own. A duration lets
// time pass, or sets the clock back. The calls are numbered as they are granted. They need the vendor, and the keys that follow; of
// a:300ms/100ms+1s, 300ms is the charge, 100ms that of one permit, and 1s how far ahead of the usage the slot can be.
//
//nolint:gochecknoglobals // a constant
var gateRules = map[string]string{
	"slots": `p pass 2 a:100ms = @0s slot 100ms a; 40ms; p pass 1 a:100ms = slot 60ms a; set ahead=260ms
		p pass 5 a:100ms = @60ms @160ms @260ms slot 360ms a; p pass 2 f:1500ns = @0s @2µs; set trip=30ms ahead=40ms
		p pass 2 b:100ms = @30ms slot 130ms b; p pass 1 = @0s`,
	"burst": `p pass 4 a:100ms+200ms = 3*@0s slot 100ms a; 250ms; p pass 3 a:100ms+200ms = 2*@0s slot 50ms a; 10s
		p pass 4 a:100ms+200ms = 3*@0s slot 100ms a; p pass 1 b:300ms/100ms = @0s; p pass 1 b:100ms = slot 300ms b`,
	"two limits": `p pass 1 a:100ms = @0s; p pass 1 b:250ms = @0s; p pass 1 a:100ms b:250ms = slot 250ms b
		p pass 1 b:250ms a:100ms = slot 250ms b; set ahead=1s; p pass 2 a:100ms b:250ms = @250ms @500ms; set ahead=0s
		p pass 1 a:100ms = slot 600ms a`,
	// A key that refuses a call refuses those that come after it too, except those that need no slot if only that is missing.
	"groups": `p pass 1 a:100ms = @0s
		p pass 1 a:300ms/100ms | 1 a:100ms+200ms | 1 a | 1 b:100ms = slot 100ms a | slot 100ms a | @0s | @0s
		p hold c 1s = 1s; p pass 1 c | 1 b c = held 1s c | held 1s c; set in=1; p pass 2 | 1 = @0s poll 50ms v | poll 50ms v`,
	"reserve": `set in=1 ahead=1m; p reserve 2 = 2*@0s; state = 0/1 1; p reserve 3 a:100ms = @0s @100ms @200ms; set ahead=150ms
		p reserve 3 b:100ms = @0s @100ms slot 200ms b; set ahead=1m; p hold c 5s = 5s; p reserve 2 c:100ms = @5s @5.1s
		p hold v 9s = 9s; p reserve 1 = @9s; p reserve 1 c:100ms = @9s; 9s; p reserve 1 a = @0s`,
	// What is reserved takes no slot of a key that could have an earlier one.
	"reserve, other limit": `set ahead=1m; p reserve 1 b:300ms = @0s; p reserve 1 a:100ms b:300ms = @300ms; p pass 2 a:100ms = @0s @100ms
		p end b 2; p pass 3 a:100ms = @200ms @300ms @400ms; p reserve 1 d:12.5ms = @0s; p reserve 1 c:100ms d:12.5ms = @12.5ms
		p pass 1 c:100ms = @0s; p reserve 1 e:12.4ms = @0s; p reserve 1 f:100ms e:12.4ms = @12.4ms; p pass 1 f:100ms = @112.4ms
		set trip=20ms; p reserve 2 g:100ms = @20ms @120ms`,
	// The permits that were used stay, and the next slot comes after the last one.
	"limit is changed": `set ahead=1m; p reserve 3 a:100ms = @0s @100ms @200ms; set ahead=0s; 250ms; p pass 1 a:400ms = slot 350ms a
		50ms; p pass 1 a:400ms = slot 300ms a; p pass 1 a = @0s; p pass 1 a:50ms = slot 37.5ms a; p pass 4 b:3ms+30ms = 4*@0s; 1ms
		p pass 1 b:7ms = slot 25.667ms b; 10s; p pass 1 a:1h = @0s; set ahead=1m; p reserve 3 c:100ms = @0s @100ms @200ms; p end b 11
		p reserve 1 c:50ms = @250ms; p reserve 2 e:300ms/100ms = @0s @300ms; p reserve 1 e:50ms = @450ms
		p late 2 d:100ms = @0s slot 87.5ms d; p late 1 d:200ms = @0s`,
	"late": `p late 2 a:100ms = @0s slot 87.5ms a; 82.499ms; p late 1 a:100ms = slot 5.001ms a; 1us; p late 2 a:100ms = @0s slot 105ms a
		p late 1 a:100ms = slot 105ms a; 1s; p late 2 a:100ms = @0s slot 87.5ms a; p again 1 a:100ms = @0s; p again 2 a:100ms = @100ms
		p late 1 a:100ms = slot 100ms a; set ahead=1m; p reserve 2 b:1s = @0s @1s; p late 1 b:1s = slot 1.5s b
		p reserve 6 c:100ms+300ms = 4*@0s @100ms @200ms; p late 1 c:100ms+300ms = slot 200ms c; p late 1 c = @0s
		set trip=50ms; p late 1 d:100ms = @0s; p hold e 0s = 0s
		p late 2 e:100ms = @0s,probe poll 50ms e`,
	"again": `p pass 1 a = @0s; set ahead=1m; p reserve 5 a:100ms = @0s @100ms @200ms @300ms @400ms; set ahead=0s
		p again 1 a:100ms = @500ms; p again 1 a = @0s; p hold a 3s = 3s; p again 1 a = held 3s a; 3s; p again 1 a = slot 1µs a`,
	"given back": `set ahead=1m; p reserve 5 a:100ms = @0s @100ms @200ms @300ms @400ms; p end b 5; p reserve 1 a:100ms = @400ms; p end b 2 4
		p reserve 3 a:100ms = @100ms @300ms @500ms; p end b 8; p reserve 1 a:200ms/100ms = @600ms; p reserve 1 a:100ms = @300ms; p end b 7
		100ms; p reserve 1 a:100ms = @0s; p end b 12; p reserve 1 a:100ms = @700ms; p end b 11; 200.001ms
		p reserve 1 a:100ms = @599.999ms; p pass 1 c:100ms = @0s; 50ms; p end b 15; p pass 1 c:100ms = @0s`,
	"given back, two limits": `set ahead=1m; p reserve 5 a:100ms = @0s @100ms @200ms @300ms @400ms; p reserve 1 b:300ms = @0s; p end b 3
		p reserve 1 a:100ms b:300ms = @500ms`,
	// 64 are kept, without those that are over.
	"many given back": `set ahead=1m; p reserve 67 a:10ms; p end b 2..66; p reserve 64 a:10ms; p reserve 1 a:10ms = @670ms
		p reserve 66 b:10ms; p end b 134..197; 1s; p reserve 4 b:10ms = @0s @10ms @20ms @30ms; p end b 200 201
		p reserve 2 b:10ms = @20ms @40ms`,

	// What is settled for less is given back, but no more than what all slots after it have left.
	"settled": `p pass 1 a:300ms/100ms+100ms = @0s; p settle 1:100ms; p pass 1 a:300ms/100ms = slot 100ms a; p settle 1:500ms
		p pass 1 a:300ms/100ms = slot 500ms a; p settle 1:0s; p pass 1 a:400ms/100ms = @0s; p pass 1 b:1s = @0s; p settle 3:100ms; p settle 3:1s
		p pass 1 b:1s = slot 1s b; p pass 1 c:300ms/100ms+100ms = @0s; p pass 1 c:100ms+300ms = @0s; p settle 4:0s; p pass 5 c:100ms+300ms = 3*@0s slot 100ms c`,
	"settled, later slots": `set ahead=1m; p reserve 1 a:300ms/100ms+100ms = @0s; p reserve 1 a:400ms/100ms = @300ms; p settle 1:0s
		p reserve 1 a:400ms/100ms = @700ms; p pass 1 b:300ms/100ms+100ms = @0s; p reserve 1 b:200ms/100ms+200ms = @100ms; p settle 4:0s
		p reserve 1 b:400ms/100ms = @300ms; p settle 5:0s; p reserve 1 b:400ms/100ms = @700ms`,
	"settled for more, then for less": `set ahead=1m; p pass 1 a:100ms+300ms = @0s; p pass 1 a:200ms/100ms+200ms = @0s
		p pass 1 a:100ms+300ms = @0s; p settle 2:300ms; p settle 2:0s; p settle 1:0s; p reserve 1 a:400ms/100ms = @200ms`,
	"settled twice in a report": `set ahead=1m; p pass 1 a:300ms/100ms+100ms = @0s; p settle 1:200ms 1:100ms; p reserve 1 a:400ms/100ms = @100ms`,
	"settled, value expired": `p pass 1 a:100ms = @0s; 10s; p settle 1:1m; p pass 1 a:100ms = slot 50s a; p pass 1 b:100ms = @0s; 10s
		p settle 2:0s; p pass 1 b:400ms/100ms = @0s; p settle 2:100ms; p settle 2:0s; p pass 1 b:100ms = slot 500ms b`,
	"settled, forgotten": `p pass 3 a:100ms+300ms = 3*@0s; p settle 1:1s/1s 2:1s/1s 3:1s/1s; p pass 1 a:100ms = slot 1s a
		p settle 1:0s 2:0s 3:0s; p pass 1 a:100ms = slot 1s a`,
	"settled, limit is changed": `p pass 2 a:100ms+300ms = 2*@0s; p pass 1 a:50ms = slot 100ms a; p settle 1:0s 2:0s; p pass 1 a:50ms = slot 100ms a
		p end b 2; p pass 1 a:50ms = slot 100ms a; p settle 1:300ms; p pass 1 a:50ms = slot 250ms a`,
	"settled, slot of another": `set ahead=1m; p reserve 3 a:100ms = @0s @100ms @200ms; p end b 2; p reserve 1 a:100ms = @100ms; p settle 4:0s
		p reserve 1 a:100ms = @300ms; p settle 4:200ms; p reserve 1 a:100ms = @600ms; p settle 3:0s; p reserve 1 a:100ms = @700ms
		p reserve 4 b:100ms+100ms = 2*@0s @100ms @200ms; p end b 10; p reserve 1 b:100ms+100ms = @100ms; p settle 12:0s
		p reserve 1 b:200ms/100ms = @300ms`,
	"settled, late": `set ahead=1m; p late 1 a:300ms/100ms+100ms = @0s; p again 1 a:300ms/100ms+100ms = @0s; p settle 1:100ms
		p late 4 a:100ms+300ms = 3*@0s slot 87.5ms a`,
	// Of more than 32 of different costs, the first are counted together.
	"settled, many slots": `p pass 41 a:1ms+1s; p settle 1:0s 5:0s 9:0s; p pass 1 a:5ms/1ms = slot 41ms a; p settle 10:0s
		p pass 1 a:5ms/1ms = slot 40ms a`,
	"settled, clock goes back": `p pass 2 a:100ms+300ms = 2*@0s; -1h; p settle 1:0s; p pass 1 a:400ms/100ms = slot 100ms a
		p settle 2:200ms; p pass 1 a:400ms/100ms = slot 200ms a`,
	"settled, clock goes back, expired": `p pass 1 a:400ms/100ms = @0s; del a; -1h; p pass 1 a:400ms/100ms = @0s; p settle 1:0s
		p pass 1 a:400ms/100ms = slot 400ms a`,

	"hold": `p hold a 5s = 5s; ttl v 15s; ttl a 15s; p pass 1 a = held 5s a; p pass 1 b = @0s; 2s; p hold a 1s = 3s; p hold a 4s = 4s
		ttl a 14s; p pass 1 a = held 4s a; 4s; p pass 1 a = @0s,probe; p hold v 2s = 2s; p pass 1 a = held 2s v`,
	// A late answer extends the hold that its attempt has begun with others, and begins none again.
	"late answers": `p pass 3 a = 3*@0s; p hold a 1s 1 = 1s; p hold a 2s 2 = 2s; 2.000001s; p hold a 9s 3 = 0s; p pass 1 a = @0s,probe
		p hold a 1s 4 = 1s; p hold a 5s 3 = 1s; 1s; p pass 1 a = @0s,probe; del a; p hold a 5s 5 = 5s; 5s; p hold a 3s = 3s`,
	"two holds at once": `p hold a 0s = 0s; p pass 1 a = @0s,probe; p hold a 1s 1 = 1s; 1s; p hold a 5s 1 = 0s`,
	"turns": `p hold a 1s = 1s; 1s; p pass 2 a = @0s,probe poll 50ms a; p pass 1 b = @0s; 400ms; p pass 1 a = poll 200ms a
		p again 1 a = @0s,turn; 4.5s; p pass 1 a = poll 500ms a; 5s; p pass 1 a = poll 100ms a; 99.9ms
		p pass 1 a = poll 1ms a; 100us; p pass 1 a = @0s,probe; p again 1 a = poll 50ms a; p end t 3; p again 1 a = poll 1ms a
		p pass 1 a = @0s,probe; p end ts 4; p pass 3 a = 2*@0s,turn poll 50ms a; p end t 5; p pass 2 a = @0s,turn poll 50ms a
		p end s 6; p pass 1 a = poll 50ms a; p end ts 6; p end ts 6; p pass 3 a = 2*@0s,turn poll 50ms a; p hold a 1s = 1s; 1s
		p pass 2 a = @0s,probe poll 50ms a`,
	"end of a ramp by time": `p hold a 1s = 1s; 10.999999s; p pass 1 a = @0s,probe; 1us; p pass 1 a = poll 50ms a; 3s; p end t 1
		p pass 1 a = @0s; p hold b 1s = 1s; 1s; p pass 1 b = @0s,probe; p end ts 3; 1s; p pass 1 b = @0s,turn
		400ms; p pass 2 b = @0s,turn poll 50ms b; 8.6s; p pass 3 b = 3*@0s; p hold c 1s = 1s; 1s; p pass 1 c = @0s,probe; p end ts 9
		p pass 2 c = 2*@0s,turn; 10s; p pass 3 c = 3*@0s; p hold d 1s = 1s; 1s; p pass 1 d = @0s,probe; 10s; p again 15 d = poll 1ms d; 10s
		p pass 1 d = @0s`,
	"end of a ramp by calls": `p hold a 0s = 0s; p do 62 a; p pass 64 a = 63*@0s,turn poll 50ms a; p end ts 63; p pass 100 a = 100*@0s
		p pass 1 a:100ms = @0s; ttl a 100ms`,
	"lost turn": `set in=1; p hold a 0s = 0s; p pass 1 a = @0s,probe; 5s; p renew 1; state = 1/1 1; 5s; q pass 1 a = @0s,probe
		state = 1/1 2; r pass 1 b = poll 50ms v`,
	"lost turns after the probe": `set in=2; p hold a 0s = 0s; p do 1 a; p pass 2 a = 2*@0s,turn; 9s; p renew 2 3; 1s
		p pass 1 a = poll 500ms v; state = 2/2 1`,
	"late answer of a probe": `p hold a 0s = 0s; p pass 1 a = @0s,probe; 10s; p pass 1 a = @0s,probe; 5s; p end ts 1
		p pass 2 a = @0s,turn poll 50ms a; p end ts 1; p pass 1 a = poll 50ms a; 5s; p pass 3 a = 3*@0s`,

	"places": `set in=2; p pass 3 = 2*@0s poll 50ms v; state = 2/2 1; 400ms; p pass 1 = poll 200ms v; 2s; p pass 1 = poll 500ms v; 7.5s
		p pass 1 = poll 100ms v; 99.9ms; p pass 1 = poll 1ms v; 100us; p pass 2 = 2*@0s; state = 2/2 1`,
	"leases": `set in=1; p pass 1 = @0s; 9s; p renew 1; 9s; p again 1 = @0s; 9.999999s; q pass 1 = poll 1ms v; 1us; p again 1 = poll 1µs v
		q pass 1 = @0s; p renew 1; state = 1/1 2`,
	// Who waits longest is first, for 700 ms after it has asked.
	"waiting": `set in=1; p pass 1 = @0s; q pass 1 = poll 50ms v; 10ms; r pass 1 = poll 50ms v; 10ms; p end p 1; r pass 1 = poll 50ms v
		q pass 1 = @0s; q end p 2; r pass 1 = @0s; q pass 1 = poll 50ms v; r end p 3; s pass 1 = poll 50ms v; s pass 1 = @0s; s end p 4
		699.999ms; r pass 1 = poll 349.999ms v; 1us; r pass 1 = @0s`,
	"waiting for long": `set in=1; p pass 1 = @0s; q pass 1 = poll 50ms v; 600ms; q pass 1 = poll 300ms v; 1us; r pass 1 = poll 300ms v; 600ms
		p end p 1; r pass 1 = poll 50ms v; q pass 1 = @0s`,
	"many waiting": `set in=1; p pass 1 = @0s; crowd 128; set in=129; y pass 1 = poll 50ms v; set in=130; z pass 1 = @0s`,
	"InFlight is changed": `set in=4; p pass 2 = 2*@0s; state = 2/4 1; set in=8; p pass 1 = @0s; state = 3/8 1; p hold h 0s halve = 0s
		state = 3/4 1; set in=16; p pass 1 = @0s; state = 4/4 1; set in=2; p pass 1 = poll 50ms v; state = 4/2 1; set in=0
		p pass 1 = @0s; state = 4/0 1`,
	"halved, two values of InFlight": `set in=8; p pass 1 = @0s; p hold a 0s halve = 0s; set in=4; q pass 1 = @0s; state = 2/4 2
		set in=8; p pass 1 = @0s; state = 3/4 2; set in=2; q pass 1 = poll 50ms v; state = 3/2 2`,
	"halved, another value between": `set in=8; p pass 1 = @0s; p hold a 0s halve = 0s; set in=5; q pass 1 = @0s; p do 4; set in=8
		p pass 1 = @0s; state = 3/5 2`,
	"halved, and InFlight is lowered": `set in=64; p pass 1 = @0s; p hold a 0s halve = 0s; set in=8; p pass 1 = @0s; 1s
		p hold b 0s halve = 0s; p pass 1 = @0s; state = 3/4 1`,
	"halved": `set in=64; p pass 33 = 33*@0s; p hold z 0s = 0s; state = 33/64 1; p hold a 1s halve = 1s; state = 33/32 1
		p hold b 1s halve = 1s; state = 33/32 1; p end ps 1..31; state = 2/32 1; p end p 33; state = 1/32 1; p end ps 32; state = 0/34 1
		set in=35; p do 34; state = 0/36 1; p pass 1 = @0s; state = 1/35 1`,
	"halved to few": `set in=4; p pass 1 = @0s; p hold a 1s halve = 1s; state = 1/2 1; p end ps 1; p do 1; state = 0/3 1; p do 2
		state = 0/3 1; p do 1; state = 0/4 1`,
	"halved to 31":          `set in=62; p do 1; p hold a 1s halve = 1s; p do 31; state = 0/32 1`,
	"halved without places": `p hold h 0s halve = 0s; set in=4; p pass 1 = @0s; state = 1/4 1`,
	// Halved again within ten seconds of its end while more than half of the places are in use, the number grows slowly.
	"halved again": `set in=2; p pass 2 = 2*@0s; p hold a 1s halve = 1s; 2s; p hold b 1s halve = 1s; state = 2/1 1; p end ps 1 2; p do 13
		state = 0/1 1; p do 1; state = 0/2 1`,
	"halved again, soon": `set in=2; p pass 2 = 2*@0s; p hold a 1s halve = 1s; 9s; p renew 1 2; 1.999999s; p hold b 1s halve = 1s; p end ps 1
		state = 1/1 1`,
	"halved again, later": `set in=2; p pass 2 = 2*@0s; p hold a 1s halve = 1s; 9s; p renew 1 2; 2s; p hold b 1s halve = 1s; state = 2/1 1
		p end ps 1; state = 1/2 1`,
	"halved again, half in use": `set in=4; p pass 3 = 3*@0s; p hold a 1s halve = 1s; 2s; p end p 1 2; p hold b 1s halve = 1s
		state = 1/1 1; p end ps 3; state = 0/2 1`,
	"halved again, after successes": `set in=8; p do 1; p hold a 1s halve = 1s; p do 2; 2s; p hold b 1s halve = 1s; p do 1; state = 0/2 1`,
	"successes from before":         `set in=4; p pass 2 a b = 2*@0s; p hold a 1s halve = 1s; p end ps 1 2; state = 0/2 1`,

	// Places alone are halved: those in use if they are fewer, at most once a second. They grow slowly.
	"busy": `set in=64; p pass 12 = 12*@0s; p hold v 1s busy = 0s; state = 12/6 1; q hold v 1s busy = 0s; state = 12/6 2; p pass 1 = poll 50ms v
		p end ps 1..12; p pass 1 = @0s; p end p 13; 1s; p pass 5 = 5*@0s; p hold v 1s busy = 0s; state = 5/6 2; 1us; p hold v 1s busy = 0s
		state = 5/2 2; p end ps 14..18; p do 26; state = 0/2 2; p do 1; state = 0/3 2; 2s; p hold v 1s busy = 0s; state = 0/1 2
		p hold a 1s halve = 1s; state = 0/1 2; p pass 1 = @0s; p hold b 1s = 1s; p hold b 9s busy = 1s`,
	"busy without places": `p hold v 1s busy = 0s; set in=4; p pass 1 = @0s; state = 1/4 1`,

	// While background calls ask for slots, an interactive call that was refused goes first, until 100 ms after its slot.
	"interactive first": `p pass 1 a:100ms = @0s; q pass b1 a:100ms = slot 100ms a; p pass 1 a:100ms = soon 100ms a
		q pass b1 a:100ms = yield 200ms a; 100ms; q pass b1 a:100ms = yield 100ms a; q pass b1 b:100ms = @0s; q pass b1 a = @0s
		p pass 1 a = @0s; q pass b1 a:100ms = yield 100ms a; p pass 1 a:100ms = @0s; q pass b1 a:100ms = slot 100ms a
		p pass 1 a:100ms = soon 100ms a; 199.999ms; q pass b1 a:100ms = yield 1µs a; 1us; q pass b1 a:100ms = @0s`,
	// An interactive call of another process, and one that asks again, do not end that.
	"interactive calls of two": `p pass 1 a:100ms = @0s; q pass b1 a:100ms; p pass 1 a:100ms = soon 100ms a; 100ms
		r pass 1 a:100ms = @0s; p again 1 a; q pass b1 a:100ms = yield 100ms a; 100ms; p pass 1 a:100ms = @0s; q pass b1 a:100ms = slot 100ms a`,
	// It is not known that background calls ask when none has in the last 100 ms.
	"no background": `q pass b1 a:10ms = @0s; 99.999ms; p pass 1 a:100ms = @0s; p pass 1 a:100ms = soon 100ms a
		q pass b1 a:100ms = yield 200ms a
		q pass b1 b:10ms = @0s; 100ms; p pass 1 b:100ms = @0s; p pass 1 b:100ms = slot 100ms b; q pass b1 b:100ms = slot 100ms b`,
	"interactive and background": `p pass 1 a:100ms | b1 a:100ms | 1 a:100ms = @0s | slot 100ms a | soon 100ms a; 100ms
		p pass 2 a:100ms | b1 a:100ms | b1 a | b1 b:100ms = @0s soon 100ms a | yield 100ms a | @0s | @0s`,
	// When eight interactive calls have passed, the slot of a background call can be 50 ms farther ahead.
	"turn of background": `p pass 1 a:100ms = @0s; q pass b1 a:100ms = slot 100ms a; set ahead=690ms; p pass 6 a:100ms; set ahead=0s
		p pass 1 a:100ms = soon 700ms a; q pass b1 a:100ms = yield 600ms a; set ahead=710ms; p pass 2 a:100ms = @700ms soon 800ms a
		q pass b1 a:100ms = yield 600ms a; set ahead=810ms; p pass 2 a:100ms = @800ms soon 900ms a; set ahead=0s
		q pass b1 a:100ms = slot 850ms a; 800ms; p pass 1 a:100ms = soon 100ms a; 49.999ms; q pass b1 a:100ms = slot 1µs a; 1us
		q pass b2 a:100ms = @50ms yield 150ms a; p pass 1 a:100ms = soon 150ms a; set ahead=1s; q reserve b1 a:100ms = @150ms`,
	"turns of background": `p pass 1 a:10ms = @0s; q pass b1 a:10ms = slot 10ms a; set ahead=1s; p pass 90 a:10ms; set ahead=0s
		p pass 1 a:10ms = soon 910ms a; set ahead=2s; q pass b20 a:10ms = @910ms @920ms yield 600ms a`,
	"turn of background, in one request": `p pass 1 a:1s = @0s; p pass b1 a:1s = slot 1s a; set ahead=8s; p pass 9 a:1s
		q pass 1 a:1s | b2 a:1s = soon 9s a | slot 8.95s a; 950ms; q pass 1 a:1s | b2 a:1s = soon 8.05s a | @8.05s yield 8.05s a`,
	"turn of background, late": `p late 1 a:100ms = @0s; q late b1 a:100ms = slot 87.5ms a; p late 1 a:100ms = soon 87.5ms a; 87.5ms
		q late b1 a:100ms = yield 100ms a; p late 1 a:100ms = @0s; q late b1 a:100ms = slot 100ms a`,
	// Interactive calls wait for a costly background call whose turn it is, but not those that have passed.
	"turn of background, costly": `q pass b1 a:100ms = @0s; set ahead=850ms; p pass 8 a:100ms; set ahead=0s; q pass b1 a:300ms/100ms = soon 900ms a
		p pass 1 a:100ms = yield 600ms a; p again 2 a:100ms = @900ms; 500ms; q pass b1 a:300ms/100ms = soon 450ms a; p pass 1 a:100ms = yield 550ms a
		300ms; q pass b1 a:300ms/100ms = soon 150ms a; p pass 1 a:100ms = yield 250ms a; 100ms; q pass b1 a:300ms/100ms = soon 50ms a
		p pass 1 a:100ms = yield 150ms a; 600ms; p pass 1 a:100ms = @0s`,
	"turns of background, costly": `q pass b1 a:10ms = @0s; set ahead=1s; p pass 18 a:10ms; set ahead=0s; q pass b1 a:20ms/10ms = soon 190ms a
		set ahead=1s; p pass 1 a:10ms = yield 200ms a; q pass b1 a:20ms/10ms = @190ms; p pass 1 a:10ms = @210ms`,
	// Calls that do not wait hold up no others.
	"classes, without waiting": `set nowait=1; q pass b1 a:100ms = @0s; p pass 1 a:100ms = slot 100ms a; 100ms; q pass b1 a:100ms = @0s
		set in=1; p pass 1 = @0s; p pass 1 = poll 50ms v; p end p 3; q pass b1 = @0s`,
	// Places are kept for as many interactive calls as wait, or for one background call.
	"classes, places": `set in=2; p pass 2 = 2*@0s; q pass b1 = poll 50ms v; p pass 1 = poll 50ms v; p end p 1 2; q pass b2 = @0s poll 50ms v
		p pass 1 = @0s; q end p 3; p pass 1 | b1 = @0s | poll 50ms v`,
	"turn of background, places": `set in=1; p pass 1 = @0s; q pass b1 = poll 50ms v; p pass 3 = poll 50ms v; p end p 1
		q pass b1 = poll 50ms v; p do 8; p pass 1 = poll 50ms v; q pass b1 = @0s; q end p 10; q pass b1 = poll 50ms v; p pass 1 = @0s`,
	"turns of background, places": `set in=1; q do 9; p pass 1 | b1 = @0s | poll 50ms v; p end p 10; p do 7
		p pass 2 | b1 = @0s poll 50ms v | poll 50ms v
		p end p 18; p pass 2 | b1 = poll 50ms v | @0s`,
	"probe is interactive": `p hold a 1s = 1s; 1s; q pass b1 a = poll 50ms a; 49.999ms; q pass b1 a = poll 1µs a; p pass 1 a = @0s,probe; 1us
		q pass b1 a = poll 50ms a; p hold b 1s = 1s; 1.05s; q pass b1 b = @0s,probe; p end tps 1; q pass b2 a = @0s,turn poll 50ms a
		p pass 1 a = @0s,turn; q end tps 3; q pass b2 a = @0s,turn poll 50ms a; p end tps 4; q pass b3 a = 2*@0s,turn poll 50ms a`,
	"given back, classes": `p pass 1 a:400ms = @0s; q pass b1 a:400ms; set ahead=400ms; p reserve 1 a:400ms = @400ms; set ahead=0s
		p pass 1 a:400ms = soon 800ms a; 400ms; q pass b1 a:400ms = yield 200ms a; p end b 2; q pass b1 a:400ms = @0s`,
	"expiry, classes": `p pass 1 a:100ms = @0s; q pass b1 a:100ms = slot 100ms a; ttl a 200ms; p pass 1 a:100ms = soon 100ms a
		ttl a 200ms; 150ms; p pass 1 a:100ms = @0s; ttl a 100ms; p pass 1 a:100ms = soon 100ms a; ttl a 200ms`,
	"clock goes back, classes": `p pass 1 a:400ms = @0s; q pass b1 a:400ms = slot 400ms a; p pass 1 a:400ms = soon 400ms a; -1h
		q pass b1 a:400ms = yield 500ms a; 400ms; q pass b1 a:400ms = yield 100ms a; p pass 1 a:400ms = @0s; p pass 1 a:400ms = soon 400ms a
		q pass b1 a:400ms = yield 500ms a; 500ms; q pass b1 a:400ms = @0s`,
	// An interactive call whose slot is far ahead asks every half a second.
	"interactive call far ahead": `q pass b1 a:1s/1ms = @0s; set ahead=9s; p pass 1 a:9s/1ms = @1s; set ahead=0s
		p pass 1 a:9s/1ms = soon 10s a; q pass b1 a:1ms+10s = yield 500ms a; 599.999ms; q pass b1 a:1ms+10s = yield 1µs a; 1us
		q pass b1 a:1ms+10s = @0s`,
	"resume": `set in=8; p do 1; p pass 2 d = 2*@0s; p hold a 1h = 1h0m0s; p hold b 1h = 1h0m0s; p hold e 1h = 1h0m0s; 1s; resume a e
		p pass 1 a = @0s,probe; p hold h 1s halve = 1s; state = 3/8 1; p pass 1 b = held 59m59s b; 1us; p hold i 1s halve = 1s
		state = 3/4 1; 1s; p hold d 1h 2 = 1h0m0s; 1s; resume; p hold d 1h 3 = 0s; p pass 1 b = @0s,probe; p hold b 1s = 1s
		p pass 1 b = held 1s b; 10s; p pass 2 d = 2*@0s; p pass 1 e = @0s`,
	"resume, vendor": `p hold v 1h = 1h0m0s; p hold a 1h = 1h0m0s; 1s; resume a; p pass 1 a = held 59m59s v; resume; p pass 1 a = @0s,probe
		p end ts 1; p hold a 1s = 1s; p pass 1 a = held 1s a`,
	"resume, halved": `set in=8; p do 1; resume; p hold a 1s halve = 1s; state = 0/8 1; 1us; p hold b 1s halve = 1s; state = 0/4 1`,

	"processes": `p pass 1 = @0s; state = 0/0 1; q pass 1 = @0s; state = 0/0 2; 999.999ms; p renew; 9s; r renew; state = 0/0 3; 1us
		q renew; state = 0/0 2; 1s; q renew; 9s; r renew; state = 0/0 2; p hold a 5s = 5s; state = 0/0 3; s pass 1 a = held 5s a; state = 0/0 3
		r leave; p renew; state = 0/0 2`,
	// A value is kept until nothing of it is left.
	"expiry": `p pass 1 a:100ms = @0s; ttl a 100ms; ttl v 10s; p late 1 b:100ms = @0s; ttl b 88ms; set in=1; p pass 1 = @0s; 9.9s
		q pass 1 = poll 100ms v; ttl v 700ms; p hold c 1s = 1s; ttl c 11s; 6s; p pass 1 c = @0s,probe; ttl c 20s; p end tp 4; p leave
		ttl v 5s; 5s; p leave; ttl v -`,
	"expiry of places": `set in=1; p pass 1 = @0s; 1s; p leave; ttl v 9s`,

	// What ends ends when it would have if the clock had not gone back.
	"clock goes back, hold": `set in=1; p pass 1 = @0s; 1s; p hold v 3s = 3s; -1h; p pass 1 = held 3s v; 1s; p pass 1 = held 2s v; 2s
		p pass 1 = poll 500ms v; state = 1/1 1; 7s; p pass 1 = @0s,probe; p end tp 2; 3s; p pass 1 = @0s`,
	"clock goes back, usage": `p pass 1 a:1m = @0s; p pass 1 b:1m = @0s; p late 1 c:1m = @0s; set ahead=1h
		p reserve 3 d:1m = @0s @1m0s @2m0s; p end b 5; p hold e 0s = 0s; p pass 1 e = @0s,probe; set ahead=0s; -1h
		p pass 1 a:1m = slot 1m0s a; p pass 1 b:30s = slot 30s b; p late 1 c:1m = slot 59.9875s c; p pass 1 e = poll 50ms e; set ahead=1h
		p reserve 1 d:1m = @1m0s; 10s; p pass 1 e = @0s,probe`,
	"clock goes back, waiting": `set in=1; p pass 1 = @0s; q pass 1 = poll 50ms v; -1h; p renew; 1ms; r pass 1 = poll 50ms v; p end p 1
		r pass 1 = poll 50ms v; 700ms; r pass 1 = @0s; 10s; s renew; state = 0/1 1`,
	"clock goes back, halved": `set in=8; p pass 1 = @0s; p hold a 1s halve = 1s; ttl v 11s; -1h; p renew; ttl v 11s; 2s
		p hold b 1s halve = 1s; state = 1/2 1`,
}

func TestGateRules(t *testing.T) {
	t.Parallel()
	client := startServer(t).virtual(t)
	for name, rules := range gateRules {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, client, Config{})
			table, err := s.OpenGate(name)
			require.NoError(t, err)
			k := &gateKit{T: t, client: client, Table: table, now: time.UnixMicro(epoch).Add(100 * time.Hour), ids: map[uint64]bool{}}
			s.clock = func() time.Time { return k.now }
			for step := range strings.FieldsFuncSeq(rules, func(r rune) bool { return r == ';' || r == '\n' }) {
				text, want, checked := strings.Cut(step, " = ")
				if got := k.do(strings.Fields(text)); checked {
					require.Equal(t, want, got, "%s in %s", step, rules)
				}
			}
		})
	}
}

type gateKit struct {
	*testing.T
	gatestore.Table

	client *redis.Client
	now    time.Time
	begun  time.Time       // the last step, by the clock of the server
	ask    gatestore.Ask   // what all requests have
	state  gatestore.State // of the last answer
	calls  []gateCall
	ids    map[uint64]bool // of places and turns
}

type gateCall struct {
	gatestore.Slot

	draws []gatestore.Draw
}

// do does one step, and returns the answer.
func (k *gateKit) do(words []string) string {
	if d, err := time.ParseDuration(words[0]); err == nil {
		k.now = k.now.Add(d)
		return ""
	}
	args := words[1:]
	if words[0] != "ttl" {
		k.begun = time.Now()
	}
	switch words[0] {
	case "set":
		for _, arg := range args {
			name, value, _ := strings.Cut(arg, "=")
			switch name {
			case "in":
				k.ask.InFlight = atoi(value)
			case "nowait":
				k.ask.NoWait = value == "1"
			default:
				*map[string]*time.Duration{"trip": &k.ask.RoundTrip, "ahead": &k.ask.Ahead}[name] = duration(value)
			}
		}
	case "state": // places in use and in force, and processes
		return fmt.Sprintf("%d/%d %d", k.state.InFlight, k.state.MaxInFlight, k.state.Processes)
	case "ttl": // that a value has since the last step
		at, err := k.client.PExpireTime(k.Context(), k.nameOf(args[0])).Result()
		require.NoError(k, err)
		if args[1] == "-" {
			require.Negative(k, at, words)
			return ""
		}
		written := time.UnixMilli(0).Add(at - keptLonger - duration(args[1]))
		require.WithinRange(k, written, k.begun.Add(-time.Millisecond), time.Now(), words)
	case "del":
		require.NoError(k, k.client.Del(k.Context(), k.nameOf(args[0])).Err())
	case "resume":
		var of []gatestore.Key
		for _, arg := range args {
			of = append(of, gateKey(arg))
		}
		require.NoError(k, k.Resume(k.Context(), of))
	case "crowd": // so many processes, each with a call
		for i := range atoi(args[0]) {
			k.pass(fmt.Sprint("w", i), "pass", []string{"1"})
		}
	default:
		return k.request(words[0], args[0], args[1:])
	}
	return ""
}

// request sends a request of a process.
func (k *gateKit) request(process, verb string, args []string) string {
	r := gatestore.Report{Process: process, Leave: verb == "leave"}
	switch verb {
	case "pass", "late", "reserve", "again":
		return k.pass(process, verb, args)
	case "do": // so many calls, one after the other, which succeed
		for range atoi(args[0]) {
			k.pass(process, "pass", append([]string{"1"}, args[1:]...))
			k.request(process, "end", []string{"tps", strconv.Itoa(len(k.calls))})
		}
		return ""
	case "hold": // a key, for how long, the call that was refused, and whether to halve the places, or only that
		h := gatestore.Hold{Key: gateKey(args[0]), For: duration(args[1]), Generation: math.MaxUint64}
		for _, arg := range args[2:] {
			h.Halve, h.Busy = arg == "halve", arg == "busy"
			if !h.Halve && !h.Busy {
				of := k.calls[atoi(arg)-1]
				h.Generation = of.Generations[slices.IndexFunc(of.draws, func(d gatestore.Draw) bool { return d.Key == h.Key })]
			}
		}
		r.Holds = []gatestore.Hold{h}
	case "end": // of calls: their turns, their places; they have succeeded; their slots are given back
		has := func(letter string) bool { return strings.Contains(args[0], letter) }
		for _, of := range k.numbered(args[1:]) {
			e := gatestore.End{Of: of.Slot, Draws: of.draws, Turn: has("t"), Place: has("p"), Success: has("s")}
			if !has("b") {
				e.Of.Marks = nil
			}
			r.Ends = append(r.Ends, e)
		}
	case "settle": // calls: for each its number, what it has cost, and how far after its slot the usage can end by that
		for _, arg := range args {
			number, cost, _ := strings.Cut(arg, ":")
			cost, most, _ := strings.Cut(cost, "/")
			of := k.calls[atoi(number)-1]
			e := gatestore.End{Of: of.Slot, Draws: slices.Clone(of.draws), Settled: []gatestore.Settled{{}}}
			for i := 1; i < len(of.draws); i++ {
				e.Settled, of.draws[i].Spacing = append(e.Settled, gatestore.Settled{Cost: duration(cost), Most: duration(cmp.Or(most, "0s"))}), duration(cost)
			}
			r.Ends = append(r.Ends, e)
		}
	case "renew":
		for _, of := range k.numbered(args) {
			r.Renew = append(r.Renew, of.ID)
		}
	}
	state, inForce, err := k.Report(k.Context(), r)
	require.NoError(k, err)
	if k.state = state; len(inForce) > 0 {
		return inForce[0].For.String()
	}
	return ""
}

// pass asks for groups of calls: for each how many, after a b if they are background calls, or the number of the one that asks again, and
// its keys.
func (k *gateKit) pass(process, verb string, args []string) string {
	ask := k.ask
	ask.Process, ask.Mode, ask.Late = process, gatestore.Mode(verb), verb == "late"
	if ask.Late {
		ask.Mode = gatestore.Pass
	}
	again := ask.Mode == gatestore.Again
	for group := range strings.SplitSeq(strings.Join(args, " "), " | ") {
		words := strings.Fields(group)
		n, background := strings.CutPrefix(words[0], "b")
		of := gatestore.Group{Calls: atoi(n), Background: background, Draws: []gatestore.Draw{gateDraw("v")}}
		for _, word := range words[1:] {
			of.Draws = append(of.Draws, gateDraw(word))
		}
		if again {
			call := k.calls[of.Calls-1]
			of.Calls, of.ID = 1, call.ID
			for i := range of.Draws {
				of.Draws[i].Generation = call.Generations[i]
			}
		}
		ask.Groups = append(ask.Groups, of)
	}
	g, err := k.Pass(k.Context(), ask)
	require.NoError(k, err)
	k.state = g.State
	var answers []string
	for i, a := range g.Answers {
		answers = append(answers, k.answer(a, ask.Groups[i]))
		for _, slot := range a.Slots {
			if again {
				if slices.Max(slot.Marks) > 0 {
					k.calls[slices.IndexFunc(k.calls, func(c gateCall) bool { return c.ID == slot.ID })].Slot = slot
				}
				continue
			}
			if slot.Turn || ask.InFlight > 0 && ask.Mode == gatestore.Pass {
				require.False(k, k.ids[slot.ID], "an ID twice")
				k.ids[slot.ID] = true
			}
			k.calls = append(k.calls, gateCall{slot, slices.Clone(ask.Groups[i].Draws)})
		}
	}
	return strings.Join(answers, " | ")
}

// answer describes an answer: the slots, with how many calls have the same, and why other calls are refused.
func (k *gateKit) answer(a gatestore.Answer, of gatestore.Group) string {
	var words []string
	n := 0
	for i, slot := range a.Slots {
		word := "@" + slot.At.String()
		switch {
		case slot.Probe:
			word += ",probe"
		case slot.Turn:
			word += ",turn"
		}
		if n++; i+1 < len(a.Slots) && a.Slots[i+1].At == slot.At && a.Slots[i+1].Turn == slot.Turn {
			continue
		}
		if n > 1 {
			word = fmt.Sprint(n, "*", word)
		}
		words, n = append(words, word), 0
	}
	if len(a.Slots) < of.Calls {
		why := "slot"
		switch {
		case a.Soon:
			why = "soon"
		case a.Yield:
			why = "yield"
		case a.Held:
			why = "held"
		case a.Poll:
			why = "poll"
		}
		words = append(words, why, a.Again.String(), cmp.Or(of.Draws[a.Draw].Key.Key, "v"))
	}
	return strings.Join(words, " ")
}

// numbered returns calls by their numbers: N, or FROM..TO.
func (k *gateKit) numbered(args []string) (calls []gateCall) {
	for _, arg := range args {
		from, to, _ := strings.Cut(arg, "..")
		calls = append(calls, k.calls[atoi(from)-1:atoi(cmp.Or(to, from))]...)
	}
	return calls
}

func (k *gateKit) nameOf(key string) string { return k.Table.(*gateTable).key(gateKey(key)) }

func gateKey(name string) gatestore.Key {
	if name == "v" {
		return gatestore.Key{Vendor: true}
	}
	return gatestore.Key{Limit: "limit", Key: name}
}

func gateDraw(word string) gatestore.Draw {
	name, charge, _ := strings.Cut(word, ":")
	charge, lead, _ := strings.Cut(charge, "+")
	charge, unit, _ := strings.Cut(charge, "/")
	return gatestore.Draw{Key: gateKey(name), Spacing: duration(charge), Unit: duration(cmp.Or(unit, charge)), Lead: duration(lead)}
}

func duration(text string) time.Duration { return core.Must(time.ParseDuration(cmp.Or(text, "0s"))) }

func atoi(text string) int { return core.Must(strconv.Atoi(text)) }

// Whatever is asked for and told, there are no more places than InFlight, no more turns than the ramp has room for, no call inside a hold,
// and no slots closer than their limit.
func TestGateInvariants(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).virtual(t), Config{})
	now := time.UnixMicro(epoch).Add(time.Hour)
	s.clock = func() time.Time { return now }
	const lease, shelf = 10 * time.Second, 12500 * time.Microsecond
	limited := []gatestore.Draw{gateDraw("v"), gateDraw("a:100ms"), gateDraw("b:300ms/100ms+200ms")}
	turns, places := 0, 0
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		table, err := s.OpenGate(fmt.Sprint("vendor ", seed))
		require.NoError(t, err)
		type granted struct {
			gateCall

			place, turn time.Time // their ends
		}
		var calls []*granted
		var slots [3][]gatestore.Slot                                 // that were taken, by key
		inFlight, paused := random.IntN(5), random.IntN(len(limited)) // paused is the only key with holds
		var until time.Time                                           // of the hold
		more := map[uint64]int{}                                      // turns at once besides the first, by generation
		count := func(is func(c *granted) bool) (n int) {
			for _, c := range calls {
				if is(c) {
					n++
				}
			}
			return n
		}
		pass := func(ask gatestore.Ask, again *granted) {
			ask.Process, ask.InFlight, ask.RoundTrip = fmt.Sprint("p", random.IntN(3)), inFlight, 20*time.Millisecond
			g, err := table.Pass(t.Context(), ask)
			require.NoError(t, err)
			for i, a := range g.Answers {
				of := ask.Groups[i].Draws
				held := len(of) > paused && now.Before(until)
				require.True(t, !a.Held || a.Again == until.Sub(now), "seed %d", seed)
				for _, slot := range a.Slots {
					inside := held && (ask.Mode != gatestore.Reserve || now.Add(slot.At).Before(until))
					require.False(t, inside, "inside a hold, seed %d", seed)
					for k, mark := range slot.Marks {
						if mark > 0 {
							slots[k] = append(slots[k], slot)
						}
					}
					if again != nil {
						require.True(t, inFlight == 0 || again.Turn || again.place.After(now), "without a place, seed %d", seed)
						again.place = now.Add(lease)
						continue
					}
					c := &granted{gateCall: gateCall{slot, of}}
					if ask.Mode == gatestore.Pass {
						c.place = now.Add(lease)
						places++
					}
					if slot.Turn {
						gen := slot.Generations[paused]
						others := count(func(c *granted) bool { return c.turn.After(now) && c.Generations[paused] == gen })
						require.LessOrEqual(t, others, more[gen], "turns, seed %d", seed)
						require.Equal(t, more[gen] == 0, slot.Probe, "seed %d", seed)
						c.turn = now.Add(lease)
						turns++
					}
					calls = append(calls, c)
				}
			}
			// The place of a probe is lost with its turn.
			inUse := count(func(c *granted) bool { return c.place.After(now) && (!c.Probe || c.turn.After(now)) })
			require.True(t, inFlight == 0 || inUse <= inFlight, "places, seed %d", seed)
		}
		for range 300 {
			now = now.Add(time.Duration(20+random.IntN([]int{1000, 100_000, 4_000_000}[random.IntN(3)])) * time.Microsecond)
			if len(calls) == 0 || random.IntN(10) < 4 {
				ask := gatestore.Ask{Mode: gatestore.Pass, Ahead: 40 * time.Millisecond, Late: random.IntN(4) == 0}
				if random.IntN(4) == 0 {
					ask.Mode, ask.Ahead, ask.Late = gatestore.Reserve, time.Minute, false
				}
				for range 1 + random.IntN(2) {
					draws := slices.Clone(limited[:1+random.IntN(len(limited))])
					if len(draws) > 1 && random.IntN(8) == 0 {
						draws[1] = gateDraw("a:130ms") // now and then another limit
					}
					ask.Groups = append(ask.Groups, gatestore.Group{Calls: 1 + random.IntN(4), Draws: draws})
				}
				pass(ask, nil)
				continue
			}
			c, r := calls[len(calls)-1-random.IntN(min(len(calls), 20))], gatestore.Report{Process: "p0"}
			switch kind := random.IntN(6); {
			case kind == 0:
				of := gatestore.Group{Calls: 1, ID: c.ID, Draws: slices.Clone(c.draws)}
				for i := range of.Draws {
					of.Draws[i].Generation = c.Generations[i]
				}
				pass(gatestore.Ask{Mode: gatestore.Again, Groups: []gatestore.Group{of}}, c)
				continue
			case kind == 1 && len(c.draws) > paused:
				h := gatestore.Hold{Key: limited[paused].Key, For: time.Duration(1+random.IntN(5000)) * time.Millisecond, Halve: random.IntN(2) == 0}
				if h.Generation = c.Generations[paused]; random.IntN(4) == 0 {
					h.Generation = math.MaxUint64
				}
				r.Holds = []gatestore.Hold{h}
			case kind == 2 && random.IntN(4) == 0:
				require.NoError(t, table.Resume(t.Context(), nil))
				until = time.Time{}
				continue
			case kind == 3:
				if r.Renew = []uint64{c.ID}; c.place.After(now) {
					c.place = now.Add(lease)
				}
			default:
				e := gatestore.End{Of: c.Slot, Draws: c.draws, Turn: random.IntN(3) > 0, Place: random.IntN(3) > 0, Success: random.IntN(4) > 0}
				if c.Marks = nil; random.IntN(3) == 0 { // otherwise its slots are given back, once
					e.Of.Marks = nil
				}
				for k := range e.Of.Marks {
					slots[k] = slices.DeleteFunc(slots[k], func(s gatestore.Slot) bool { return s.ID == c.ID })
				}
				if r.Ends = []gatestore.End{e}; e.Place {
					c.place = time.Time{}
				}
				late := len(c.draws) > paused && more[c.Generations[paused]] == 0 // the answer of a probe that was given up
				if e.Turn && e.Success && (late || c.turn.After(now)) {
					more[c.Generations[paused]]++
				}
				if e.Turn {
					c.turn = time.Time{}
				}
			}
			_, inForce, err := table.Report(t.Context(), r)
			require.NoError(t, err)
			for _, h := range inForce {
				require.False(t, now.Before(until) && now.Add(h.For).Before(until), "a hold is shorter, seed %d", seed)
				until = now.Add(h.For)
			}
		}
		for k, all := range slots {
			slices.SortFunc(all, func(x, y gatestore.Slot) int { return cmp.Compare(x.Time, y.Time) })
			for i, first := range all {
				for j, last := range all[i+1:] {
					distance := time.Duration(last.Time-first.Time) * time.Microsecond
					if distance+limited[k].Lead+shelf < time.Duration(j+1)*limited[k].Spacing {
						require.Fail(t, "slots are too close", "%d of %v in %v, seed %d", j+2, limited[k], distance, seed)
					}
				}
			}
		}
	}
	require.Greater(t, min(turns, places), 200)
}

// The longest pause counts, and Resume ends all, whatever was lost in the server and wherever its clock has gone.
func TestGateValues(t *testing.T) {
	t.Parallel()
	client := startServer(t).virtual(t)
	s := newStore(t, client, Config{})
	now := time.UnixMicro(epoch).Add(100 * time.Hour)
	s.clock = func() time.Time { return now }
	vendor, a := gatestore.Draw{Key: gatestore.Key{Vendor: true}}, gatestore.Draw{Key: gatestore.Key{Limit: "account", Key: "a"}}
	hold := func(of gatestore.Table, gen uint64, d time.Duration) time.Duration {
		_, holds, err := of.Report(t.Context(), gatestore.Report{Process: "p", Holds: []gatestore.Hold{{Key: a.Key, For: d, Generation: gen}}})
		require.NoError(t, err)
		return holds[0].For
	}
	pass := func(of gatestore.Table) gatestore.Answer {
		g, err := of.Pass(t.Context(), gatestore.Ask{Process: "p", Mode: gatestore.Pass, Groups: []gatestore.Group{{Calls: 1, Draws: []gatestore.Draw{vendor, a}}}})
		require.NoError(t, err)
		return g.Answers[0]
	}
	name := func(of gatestore.Table) string { return of.(*gateTable).key(a.Key) }

	lost, err := s.OpenGate("lost")
	require.NoError(t, err)
	hold(lost, math.MaxUint64, time.Millisecond)
	now = now.Add(time.Second)
	before := pass(lost).Slots[0].Generations[1]
	require.NoError(t, client.Del(t.Context(), name(lost)).Err())
	after := pass(lost).Slots[0].Generations[1]
	require.Equal(t, 3*time.Second, hold(lost, after, 3*time.Second))
	require.Equal(t, time.Minute, hold(lost, before, time.Minute), "the longest pause counts, also one of a call from before")

	back, err := s.OpenGate("clock")
	require.NoError(t, err)
	hold(back, math.MaxUint64, 3*time.Hour)
	now = now.Add(-time.Hour)
	require.True(t, pass(back).Held)
	require.NoError(t, back.Resume(t.Context(), nil))
	require.False(t, pass(back).Held)
}

func TestGateErrors(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{})
	table, err := s.OpenGate("vendor")
	require.NoError(t, err)
	require.NoError(t, client.Set(t.Context(), "gresil:{gate=vendor}", "mine", 0).Err())
	_, _, err = table.Report(t.Context(), gatestore.Report{Process: "p"})
	require.ErrorContains(t, err, "another program has written to the key")
	require.NoError(t, client.Del(t.Context(), "gresil:{gate=vendor}").Err())
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	_, _, err = table.Report(t.Context(), gatestore.Report{Process: "p"})
	require.NoError(t, err)
	require.InDelta(t, 10*time.Second, client.PTTL(t.Context(), "gresil:{gate=vendor}").Val(), float64(5*time.Second))
	_, _, err = table.Report(t.Context(), gatestore.Report{Process: "p", Leave: true})
	require.NoError(t, err)
	require.Zero(t, client.Exists(t.Context(), "gresil:{gate=vendor}").Val())
	require.NoError(t, s.Close())
	_, _, err = table.Report(t.Context(), gatestore.Report{Process: "p"})
	require.ErrorIs(t, err, limits.ErrClosed)
	_, err = s.OpenGate("vendor")
	require.ErrorIs(t, err, limits.ErrClosed)
}

// A gate has more time for a reply than a decision.
func TestGateOfDistantServer(t *testing.T) {
	t.Parallel()
	proxy, client := startProxy(t)
	table, err := newStore(t, client, Config{Timeout: 10 * time.Millisecond}).OpenGate("ads")
	require.NoError(t, err)
	proxy.Delay(50 * time.Millisecond)
	quiettest.Test(t, func(t *quiettest.T) {
		_, _, err := table.Report(t.Context(), gatestore.Report{Process: "p"})
		require.NoError(t, err)
	})
}

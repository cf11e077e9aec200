package asynqjobs_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/groups"
)

// begin is the time of a store when a test begins, as in a bubble of testing/synctest.
var begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// An opener calls a test with a store, and with a function that lets time pass for it, which otherwise stands still.
type opener func(t *testing.T, queue string, test func(t *testing.T, s groups.Store, sleep func(time.Duration)))

func inMemory(t *testing.T, _ string, test func(*testing.T, groups.Store, func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, groups.NewMemory(), time.Sleep) })
}

// every runs the scripts that every store passes. Each has a queue of its own.
func (open opener) every(t *testing.T) {
	t.Helper()
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) { open.script(t, "batch:"+name, script) })
	}
}

func TestGroupsInMemory(t *testing.T) {
	t.Parallel()
	opener(inMemory).every(t)
}

// Results are known for ten minutes.
func TestResultLifeInMemory(t *testing.T) {
	t.Parallel()
	opener(inMemory).script(t, "q", `add a 1; flush; next p; replace p 1=; sleep 9m59s; add a 2; flush; next p; replace p 2=
		results 1 2 = 1= 2=; sleep 1s; results 1 2 = 2=; add a 1 = 1; sleep 9m59s; results 1 2 = 1?`)
}

// scripts are steps with what they return. A "~" stands for bytes that are no text, and "1001..1003" for words with these numbers.
//
//nolint:gochecknoglobals // a constant
var scripts = map[string]string{
	"flush": `add a 1 2 = 1 2; add b 3; take = -; flush a none = 2; add a 4 = 4!; next p = a: 1 2 4; take = -; add c 5; flush = 2
		next = b: 3; next = c: 5; take = -; load p = a: 1 2 4; load none = -`,
	"age": `set max=2; add a 1 2 3; sleep 1ms; add b 4; state = 4 59m59.999s; sleep 9ms; add b 5; state = 5 59m59.99s; sleep 59m59.989s
		take = -; sleep 2ms; state = 5 never; add a 6 = 6!; next = a: 1 2; next = b: 4 5; next = a: 3 6; take = -`,
	"other age": `set max=2; add a 1 2; sleep 1ms; add b 4; sleep 8ms; add a 3; sleep 1ms; add c 5; set age=9ms; next = a: 1 2; next = b: 4
		next = a: 3; take = -; add a 6; sleep 10ms; set age=1h; take = -`,
	"size": `set flush=3; add a 0 = 0; add a 1 = 1; add b 2 = 2; add a 3 4 = 3! 4!; next = a: 0 1 3 4; set flush=0; add a 5 6 = 5 6
		take = -; set flush=1; add a 7 = 7!`,
	"other size": `add a 1 2 3; add b 4; pause c; add c 5 6; take = -; set size=2; next = a: 1 2 3; set size=0; take = -; resume c
		next = c: 5 6; take = -`,
	// Each due group has one call in turn, and one that becomes due comes last.
	"turns": `set max=2; add a 0 1 2 3 4; add b 5; flush; add c 6; next = a: 0 1; flush c; next = b: 5; next = a: 2 3; next = c: 6
		next = a: 4; take = -`,
	"turns by time": `add a 1; add d 2; flush; next p; next q; replace p x:0:30m; replace q y:0:50m; add c 3; sleep 1s; add b 4
		sleep 29m58s; take = -; sleep 2h; next = a: 1; next = d: 2; next = c: 3; next = b: 4`,
	"bytes": `set bytes=5; add a 1 22 333 4 large-one 6; flush; next = a: 1 22; next = a: 333 4; next = a: large-one; next = a: 6`,
	// A record keeps its ID and place while a later one replaces its content, until it is taken. One that has failed holds no key, but
	// comes before a later one with its key.
	"unique": `set max=2 pending=6; add a 1/x 2/y 3/~z = 1 2 3; add a 4/x = 1; add a 5/~z = 3; add b 6/x = 6; flush a; next p = a: 4 2
		add a 7/x = 7!; add a 8/~z = 3!; replace p 1!no 2=; retry a = 1; add a 9/x = 7!; next p = a: 4 8; next = a: 9; replace p 1!no 3=
		retry a = 1; add a 10/x = 10!; set max=1; next = a: 4; add a 11/x = 10; flush; next = a: 11`,
	// All records count that are not done: pending, in flight, waiting and failed.
	"full": `set pending=3; add 1 1/1; add 2 2; add 3 3; add a 4 = full; groups 1 = 1:1/0/0,old=0s,next=1h0m0s; add 1 5/1 = 1; flush
		next p = 1: 5; next q = 2: 2; add a 4 = full; replace p 1!no; replace q w:0:1h; add a 4 = full; delete 1 = 1; add a 4 = 4`,
	"ahead": `set max=1 ahead=2; add a 0 1 2 3 4; flush; take p = a #1; take q = a #2; take = -; records = 5; load p = a: 0; take r = a #3
		load p = a: 0; take = -; load q = a: 1; replace q #2:0; take s = a #2; take = -; load s = a: 1 again 1; load q = -; take = a #4
		take = -; replace r x:0; take = a x; take = -`,
	// Records that are sent again are in other batches, which wait for their time.
	"parts": `add a 0 1 2 3 4 5; flush; next p; replace p now:4,5:0s:0:2 odd:1,3:20ms:4 0=x 2=y; add b 6; flush b; take q = a now
		load q = a: 4 5 l2; next = b: 6; take = -; groups = a:2/2/0,old=0s,next=20ms,call=0s b:0/1/0,call=0s; sleep 19ms; take = -
		state = 5 1ms; sleep 1ms; take q = a odd; load q = a: 1 3 a4; take = -`,
	"long wait": `add a 1; flush; next p; replace p x:0:2562047h47m16.854775807s; take = -; flush a = 1; next = a: 1`,
	"order of parts": `add a 1 2 3; add b 4; flush; next p; replace p z:0 y:1 x:2; add a 5; flush; next = b: 4; next = a: 1; next = a: 2
		next = a: 3; next = a: 5`,
	// What a process says about a batch counts once, and only in the turn in which it was taken.
	"stale turn": `add a 1; flush; next p; replace p #1:0:0s:1; load p = -; replace p 1= = replaced; next q = a: 1 again 1 a1; load p = -
		replace p 1= = replaced; replace q 1=; replace q #1:0 = replaced; load q = -; take = -; results 1 = 1=`,
	"failed": `add a 0 1 2 3 4; flush; next p; replace p 'last 0= 1!e1 2= 3!e3 4!e4; groups = a:0/0/3,call=0s,err=last; take = -
		failed a 0 2 = 1!e1 3!e3; failed a 2 2 = 4!e4; failed a 4 2 = ; failed none 0 9 = ; retry b = 0; retry a = 3; retry a = 0
		next p = a: 1 3 4; failed a 0 9 = ; replace p 1= 3= 4!e5; failed a 0 9 = 4!e5; groups = a:0/0/1,call=0s,err=last`,
	"results": `add a 0 1 2 3 4; flush; next p; results 2 none = 2?; replace p p:3:1h 0= 1!no 2=~two 4=4
		results 0 1 2 3 4 none = 0= 1!no 2=~two 3? 4=4; failed a 0 9 = 1!no; retry a; results 1 = 1?; delete a = 2
		results 0 1 2 3 = 0= 2=~two`,
	// A pause keeps records and batches back, not what is in flight, and outlives the records.
	"pause": `pause a = 0; add a 1; state = 1 never; add b 2; flush; next p = b: 2; replace p 2=; take = -; resume a = 0; next p = a: 1
		pause a; load p = a: 1; replace p p:0:1s; state = 1 never; sleep 1s; take = -; groups = a:1/0/0,paused,old=0s,next=1s,call=0s
		resume a; next p = a: 1; pause a; replace p 1=; groups = a:0/0/0,paused,call=1s; resume a; groups = ; pause a; add a 3; sleep 2h
		take = -; state = 1 never; resume a; next = a: 3`,
	// What is in flight stays, with its keys, which others cannot take from it.
	"delete": `set max=2; add a 0/0 1/1 2/2 3/3 4/4 5/5; flush; next p; next q; replace q p:0:1h 3!no; add a 7/0 = 7!; delete none = 0
		delete a = 5; add a 6/5 = 6; delete a = 1; groups = a:0/2/0,call=0s; failed a 0 9 = ; load p = a: 0 1; take = -; records = 2
		results 2 3 4 = ; replace p 0= 1=; state = 0 never; groups = `,
	"delete of what is taken": `set max=1 ahead=2; add a 0 1 2; add b 3; flush; next = a: 0; take q = b #2; take p = a #3; take = -; delete a = 2
		load p = -; replace p 2= = replaced; results 1 2 = ; records = 2; groups = a:0/1/0,call=0s b:0/1/0,call=0s; add a 4; flush
		take = a #4; take = -; load q = b: 3`,
	"flush of what waits": `add a 0 1 2; flush; next p; replace p x:0,1:1h #1:2:1000000h; add a 3; take = -; flush a = 4; next = a: 0 1
		next = a: 2 again 1; next = a: 3`,
	"groups": `set max=2; add a 0 1 2 3 4; sleep 1m; add b 5; pause c
		groups = a:5/0/0,old=0s,next=1h0m0s b:1/0/0,old=1m0s,next=1h1m0s c:0/0/0,paused; flush a; next p; next; sleep 30s
		replace p 'no p:1:1h 0!no; groups 1 = a:2/2/1,old=0s,next=0s,call=1m0s,err=no; next
		groups 1 = a:1/3/1,old=0s,next=1h1m30s,call=1m30s,err=no; sleep 1m; add a 6; groups 1 = a:2/3/1,old=0s,next=1h1m30s,call=1m30s,err=no`,
	// Operations with more than what one step does.
	"many": `set max=1100 bytes=9999; spread 1001..1600; add all 2001..3100; flush all = 1100; next p = all: 2001..3100
		replace p 2001..3100!no; results 2001..3100 = 2001..3100!no; groups 700 = 1001..1600:1/0/0,old=0s,next=1h0m0s all:0/0/1100,call=0s
		retry all = 1100; next p = all: 2001..3100; replace p 2001..3100!no; retry all = 1100; delete all = 1100; flush = 600; delete = 600
		groups = `,
	"many of all kinds": `set max=1100; add a 1001..2100; flush; next p = a: 1001..2100; replace p 1001..2100!no; set max=1
		add a 1 2 3 4 5 6 7 8 9 10 11 12; flush
		next 1; replace 1 x1:0:1h; next 1; replace 1 x2:0:1h; next 1; replace 1 x3:0:1h; next 1; replace 1 x4:0:1h; next 1; replace 1 x5:0:1h
		next 1; replace 1 x6:0:1h; next 1; replace 1 x7:0:1h; next 1; replace 1 x8:0:1h; next 1; replace 1 x9:0:1h; next 1; replace 1 x10:0:1h
		next 1; replace 1 x11:0:1h; add a 3001..4100; delete a = 2212; records = 0; groups = `,
	// An Add that is repeated, since its reply was lost, adds nothing, also if the record was sent meanwhile.
	"added twice": `add a 1; flush; next p; add a 1 = 1; replace p 1=; add a 1 = 1; add a 2 2 = 2 2; delete a = 1; records = 0`,
}

// script does the steps of a script. They are separated by ";" and lines.
func (open opener) script(t *testing.T, queue, script string) {
	t.Helper()
	open(t, queue, func(t *testing.T, s groups.Store, sleep func(time.Duration)) {
		t.Helper()
		k := &kit{T: t, Store: s, queue: queue, sleep: sleep, taken: map[string]groups.Batch{}, rules: groups.Rules{MaxPending: 1e6}}
		k.terms = groups.Terms{MaxRecords: 10, FlushAfter: time.Hour, Ahead: 100, Again: time.Hour}
		for step := range strings.FieldsFuncSeq(script, func(r rune) bool { return r == ';' || r == '\n' }) {
			text, want, checked := strings.Cut(step, " = ")
			words := expand(text)
			if got := k.do(words[0], words[1:]); checked {
				require.Equal(k, strings.Join(expand(want), " "), got, "%s in %s", step, script)
			}
		}
	})
}

type kit struct {
	*testing.T
	groups.Store

	queue string
	sleep func(time.Duration)
	terms groups.Terms
	rules groups.Rules
	made  int                     // batches
	taken map[string]groups.Batch // by a name of the script
}

// do does one step, and returns what it has given. Its arguments are texts without spaces.
func (k *kit) do(verb string, args []string) string {
	ctx, name := k.Context(), append(args, "")[0]
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	var err error
	switch verb {
	case "set": // terms and rules
		for _, arg := range args {
			name, value, _ := strings.Cut(arg, "=")
			k.set(name, value)
		}
	case "sleep":
		k.sleep(duration(args[0]))
	case "spread": // records, of groups with their names
		for _, arg := range args {
			k.do("add", []string{arg, arg})
		}
	case "add": // a group, and records: their IDs, which are their contents, and keys
		for _, arg := range args[1:] {
			id, key, _ := strings.Cut(arg, "/")
			id, due, err := k.Add(ctx, k.queue, groups.Record{ID: id, Group: args[0], Key: strange(key), Payload: []byte(id)}, k.rules)
			if errors.Is(err, groups.ErrFull) {
				id, err = "full", nil
			}
			require.NoError(k, err)
			say("%s%s", id, map[bool]string{true: "!"}[due])
		}
	case "take", "next": // a name for the batch; next loads it too
		if k.terms.ID = fmt.Sprint("#", k.made+1); name == "repeated" {
			k.terms.ID = fmt.Sprint("#", k.made)
		}
		var b groups.Batch
		b, _, err = k.Take(ctx, k.queue, k.terms)
		if k.taken[name] = b; b.ID == k.terms.ID && name != "repeated" {
			k.made++
		}
		switch {
		case b.ID == "":
			say("-")
		case verb == "next":
			say("%s", k.load(name))
		default:
			say("%s %s", b.Group, b.ID)
		}
	case "load":
		say("%s", k.load(name))
	case "replace":
		err = k.replace(k.taken[name], args[1:])
		if errors.Is(err, groups.ErrReplaced) {
			return "replaced"
		}
	case "state", "records": // without a Take; "records" without the time
		var state groups.State
		terms := k.terms
		terms.ID, terms.Ahead = "", 0
		_, state, err = k.Take(ctx, k.queue, terms)
		say("%d", state.Records)
		if verb == "state" && state.Next < 0 {
			say("never")
		} else if verb == "state" {
			say("%v", state.Next)
		}
	case "results": // of IDs
		var all map[string]groups.Result
		all, err = k.Results(ctx, k.queue, args)
		for _, id := range args {
			switch r, ok := all[id]; {
			case r.Waits:
				say("%s?", r.ID)
			case r.Err != nil:
				say("%s!%v", r.ID, r.Err)
			case ok:
				say("%s=%s", r.ID, ordinary(r.Value))
			}
		}
	case "failed": // of a group, from and how many
		var all []groups.Failure
		all, err = k.Failed(ctx, k.queue, args[0], number(args[1]), number(args[2]))
		for _, f := range all {
			require.Equal(k, []string{args[0], f.ID}, []string{f.Group, string(f.Payload)})
			say("%s!%v", f.ID, f.Err)
		}
	case "groups": // at most
		var all []groups.Group
		all, err = k.Groups(ctx, k.queue, k.terms.FlushAfter, number(append(args, "9")[0]))
		for _, g := range all {
			say("%s", describe(g))
		}
	default:
		var n int
		n, err = k.Control(ctx, k.queue, groups.Verb(verb), args...)
		say("%d", n)
	}
	require.NoError(k, err, verb)
	return strings.Join(said, " ")
}

func (k *kit) set(name, value string) {
	switch name {
	case "age":
		k.terms.FlushAfter = duration(value)
	case "again":
		k.terms.Again = duration(value)
	default:
		*map[string]*int{
			"max": &k.terms.MaxRecords, "bytes": &k.terms.MaxBytes, "ahead": &k.terms.Ahead, "size": &k.terms.FlushSize,
			"flush": &k.rules.FlushSize, "pending": &k.rules.MaxPending,
		}[name] = number(value)
	}
}

// load loads a batch, and returns its group and contents, and its turn, attempts and losses if they are no usual ones.
func (k *kit) load(name string) string {
	taken := k.taken[name]
	b, err := k.Load(k.Context(), k.queue, taken.ID, taken.Turn)
	require.NoError(k, err)
	if b.ID == "" {
		return "-"
	}
	taken.Records = b.Records
	require.Equal(k, taken, b)
	k.taken[name] = b
	words := []string{b.Group + ":"}
	for _, r := range b.Records {
		words = append(words, string(r.Payload))
	}
	for i, n := range []int{b.Turn - 1, b.Attempts, b.Losses} {
		if n != 0 {
			words = append(words, fmt.Sprint([]string{"again ", "a", "l"}[i], n))
		}
	}
	return strings.Join(words, " ")
}

// replace replaces a batch by parts "ID:1,2:after:attempts:losses" and results "ID=value" and "ID!error"; 'text is the last error.
func (k *kit) replace(b groups.Batch, args []string) error {
	var parts []groups.Part
	var results []groups.Result
	var last error
	for _, arg := range args {
		id, value, done := strings.Cut(arg, "=")
		failedID, text, failed := strings.Cut(arg, "!")
		switch {
		case arg[0] == '\'':
			last = errors.New(arg[1:])
		case done:
			results = append(results, groups.Result{ID: id, Value: []byte(strange(value))})
		case failed:
			results = append(results, groups.Result{ID: failedID, Err: errors.New(text)})
		default:
			f := append(strings.Split(arg, ":"), "0s", "0", "0")
			p := groups.Part{ID: f[0], After: duration(f[2]), Attempts: number(f[3]), Losses: number(f[4])}
			for i := range strings.SplitSeq(f[1], ",") {
				p.Records = append(p.Records, number(i))
			}
			parts = append(parts, p)
		}
	}
	return k.Replace(k.Context(), k.queue, b, parts, results, last)
}

// describe returns what is known of a group. Times are from the beginning.
func describe(g groups.Group) string {
	words := []string{fmt.Sprintf("%s:%d/%d/%d", g.Name, g.Pending, g.InFlight, g.Failed)}
	if g.Paused {
		words = append(words, "paused")
	}
	for i, at := range []time.Time{g.Oldest, g.Next, g.LastCall} {
		if !at.IsZero() {
			words = append(words, fmt.Sprint([]string{"old=", "next=", "call="}[i], at.Sub(begin)))
		}
	}
	if g.LastError != "" {
		words = append(words, "err="+g.LastError)
	}
	return strings.Join(words, ",")
}

// expand replaces "1..3!x" by "1!x 2!x 3!x".
func expand(text string) (words []string) {
	for word := range strings.FieldsSeq(text) {
		from, rest, ranges := strings.Cut(word, "..")
		if !ranges {
			words = append(words, word)
			continue
		}
		for i := number(from); i <= number(rest[:4]); i++ {
			words = append(words, fmt.Sprint(i, rest[4:]))
		}
	}
	return words
}

// Texts of scripts have "~" for bytes that are no text.
func strange(s string) string { return strings.ReplaceAll(s, "~", "\x00\xff") }

func ordinary(b []byte) string { return strings.ReplaceAll(string(b), "\x00\xff", "~") }

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func duration(s string) time.Duration {
	d, _ := time.ParseDuration(s)
	return d
}

// Package groupstest has the tests that every groups.Store passes.
package groupstest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/groups"
)

// Run tests a store. Each test has queues of its own. sleep lets time pass for the store.
func Run(t *testing.T, s groups.Store, sleep func(time.Duration)) {
	t.Helper()
	for name, test := range map[string]func(*kit){
		"flush": flush, "age": age, "size": size, "turns": turns, "bytes": bytes, "unique": unique, "full": full, "ahead": ahead,
		"again": again, "parts": parts, "order of parts": order, "stale turn": stale, "failed": failed, "results": results,
		"pause": pause, "delete": remove, "flush of what waits": flushWaiting, "groups": list, "many": many, "added twice": twice,
	} {
		t.Run(name, func(t *testing.T) {
			test(&kit{T: t, store: s, queue: "batch:" + name, sleep: sleep, terms: groups.Terms{
				MaxRecords: 10, FlushAfter: time.Hour, Ahead: 100, Again: time.Hour,
			}})
		})
	}
}

type kit struct {
	*testing.T
	store groups.Store
	queue string
	sleep func(time.Duration)
	terms groups.Terms
	made  int
}

// add adds a record whose ID is its content.
func (k *kit) add(group, id string) string {
	k.Helper()
	return k.insert(groups.Record{ID: id, Group: group, Payload: []byte(id)}, groups.Rules{MaxPending: 1e6})
}

func (k *kit) insert(r groups.Record, rules groups.Rules) string {
	k.Helper()
	id, _, err := k.store.Add(k.Context(), k.queue, r, rules)
	require.NoError(k, err)
	return id
}

func (k *kit) control(v groups.Verb, names ...string) int {
	k.Helper()
	n, err := k.store.Control(k.Context(), k.queue, v, names...)
	require.NoError(k, err)
	return n
}

// take takes a batch without loading it.
func (k *kit) take() (groups.Batch, groups.State) {
	k.Helper()
	k.made++
	k.terms.ID = fmt.Sprint("batch ", k.made)
	b, state, err := k.store.Take(k.Context(), k.queue, k.terms)
	require.NoError(k, err)
	return b, state
}

// next takes and loads a batch, and returns its contents too.
func (k *kit) next() (b groups.Batch, text string) {
	k.Helper()
	taken, _ := k.take()
	b = k.load(taken)
	require.Equal(k, taken.Group, b.Group)
	texts := []string{b.Group + ":"}
	for _, r := range b.Records {
		texts = append(texts, string(r.Payload))
	}
	return b, strings.Join(texts, " ")
}

func (k *kit) load(b groups.Batch) groups.Batch {
	k.Helper()
	loaded, err := k.store.Load(k.Context(), k.queue, b.ID, b.Turn)
	require.NoError(k, err)
	return loaded
}

func (k *kit) replace(b groups.Batch, parts []groups.Part, results ...groups.Result) {
	k.Helper()
	require.NoError(k, k.store.Replace(k.Context(), k.queue, b, parts, results, ""))
}

func (k *kit) none() {
	k.Helper()
	b, state := k.take()
	require.Empty(k, b)
	require.False(k, state.Due)
}

func done(b groups.Batch) (all []groups.Result) {
	for _, r := range b.Records {
		all = append(all, groups.Result{ID: r.ID, Value: []byte("of " + r.ID)})
	}
	return all
}

func flush(k *kit) {
	k.add("a", "1")
	k.add("a", "2")
	k.add("b", "3")
	k.none()
	require.Equal(k, 2, k.control(groups.Flush, "a", "none"))
	k.add("a", "4") // is not due, but goes along
	b, text := k.next()
	require.Equal(k, "a: 1 2 4", text)
	require.Equal(k, 1, b.Turn)
	k.none()
	k.add("c", "5")
	require.Equal(k, 2, k.control(groups.Flush))
	_, text = k.next()
	require.Equal(k, "b: 3", text)
	_, text = k.next()
	require.Equal(k, "c: 5", text)
	k.none()
}

func age(k *kit) {
	k.terms.MaxRecords = 2
	for _, id := range []string{"1", "2", "3"} {
		k.add("a", id)
	}
	k.add("b", "4")
	b, state := k.take()
	require.Empty(k, b)
	require.Greater(k, state.Next, k.terms.FlushAfter-time.Minute)
	require.LessOrEqual(k, state.Next, k.terms.FlushAfter)
	require.Equal(k, 4, state.Records)
	k.terms.FlushAfter = 10 * time.Millisecond // of a new Config
	k.sleep(k.terms.FlushAfter)
	for _, want := range []string{"a: 1 2", "b: 4", "a: 3"} { // all that were there are due
		_, text := k.next()
		require.Equal(k, want, text)
	}
	k.terms.FlushAfter = time.Hour
	k.none()
}

func size(k *kit) {
	rules := groups.Rules{FlushSize: 3, MaxPending: 100}
	for i, want := range []bool{false, false, true, true} {
		_, due, err := k.store.Add(k.Context(), k.queue, groups.Record{ID: strconv.Itoa(i), Group: "a"}, rules)
		require.NoError(k, err)
		require.Equal(k, want, due)
	}
	b, _ := k.next()
	require.Len(k, b.Records, 4)
	k.add("a", "5")
	k.none()
}

// Each due group has one call in turn, and one that becomes due comes last.
func turns(k *kit) {
	k.terms.MaxRecords = 2
	for i := range 5 {
		k.add("a", fmt.Sprint("a", i))
	}
	k.add("b", "b0")
	k.control(groups.Flush)
	k.add("c", "c0")
	var got []string
	for i := range 5 {
		_, text := k.next()
		if got = append(got, text); i == 0 {
			k.control(groups.Flush, "c")
		}
	}
	require.Equal(k, []string{"a: a0 a1", "b: b0", "a: a2 a3", "c: c0", "a: a4"}, got)
	k.none()
}

func bytes(k *kit) {
	k.terms.MaxBytes = 5
	for _, id := range []string{"1", "22", "333", "4", "a large one", "6"} {
		k.add("a", id)
	}
	k.control(groups.Flush)
	for _, want := range []string{"a: 1 22", "a: 333 4", "a: a large one", "a: 6"} {
		_, text := k.next()
		require.Equal(k, want, text)
	}
}

// A record keeps its ID, place and age while a later one replaces its content, until it is taken.
func unique(k *kit) {
	k.terms.MaxRecords = 2
	add := func(group, id, key string) string {
		return k.insert(groups.Record{ID: id, Group: group, Key: key, Payload: []byte(id)}, groups.Rules{MaxPending: 6})
	}
	require.Equal(k, "1", add("a", "1", "x"))
	require.Equal(k, "2", add("a", "2", "y"))
	require.Equal(k, "3", add("a", "3", "\x00 z"))
	require.Equal(k, "1", add("a", "4", "x"))
	require.Equal(k, "3", add("a", "5", "\x00 z"))
	require.Equal(k, "6", add("b", "6", "x"), "another group")
	k.control(groups.Flush, "a")
	b, text := k.next()
	require.Equal(k, "a: 4 2", text)
	require.Equal(k, []string{"x", "y"}, []string{b.Records[0].Key, b.Records[1].Key})
	require.Equal(k, "7", add("a", "7", "x"), "its record was taken")
	require.Equal(k, "3", add("a", "8", "\x00 z"))
	k.replace(b, nil, groups.Result{ID: "1", Err: errors.New("no")}, groups.Result{ID: "2"})
	require.Equal(k, 1, k.control(groups.Retry, "a"))
	require.Equal(k, "7", add("a", "9", "x"), "one that has failed holds no key")
	_, text = k.next()
	require.Equal(k, "a: 8 9", text)
	b, text = k.next()
	require.Equal(k, "a: 4", text)
	k.replace(b, nil, groups.Result{ID: "1", Err: errors.New("no")})
	k.control(groups.Retry, "a")
	require.Equal(k, "10", add("a", "10", "x"))
	k.terms.MaxRecords = 1
	k.next()
	require.Equal(k, "10", add("a", "11", "x"), "the one before it has taken no key away")
}

// All records count that are not done: pending, in flight, waiting and failed.
func full(k *kit) {
	rules := groups.Rules{MaxPending: 3}
	for _, id := range []string{"1", "2", "3"} {
		k.insert(groups.Record{ID: id, Group: id, Key: id}, rules)
	}
	refused := func() {
		k.Helper()
		_, _, err := k.store.Add(k.Context(), k.queue, groups.Record{ID: "4", Group: "a"}, rules)
		require.ErrorIs(k, err, groups.ErrFull)
	}
	refused()
	require.Equal(k, "1", k.insert(groups.Record{ID: "5", Group: "1", Key: "1"}, rules), "it is no other one")
	k.control(groups.Flush)
	one, _ := k.next()
	two, _ := k.next()
	refused()
	k.replace(one, nil, groups.Result{ID: "1", Err: errors.New("no")})
	k.replace(two, []groups.Part{{ID: "w", Records: []int{0}, After: time.Hour}})
	refused()
	require.Equal(k, 1, k.control(groups.Delete, "1"))
	k.insert(groups.Record{ID: "4", Group: "a"}, rules)
}

func ahead(k *kit) {
	k.terms.MaxRecords, k.terms.Ahead = 1, 2
	for i := range 4 {
		k.add("a", strconv.Itoa(i))
	}
	k.control(groups.Flush)
	one, _ := k.take()
	two, _ := k.take()
	none, state := k.take()
	require.Empty(k, none)
	require.True(k, state.Due)
	k.load(one)
	three, _ := k.take()
	require.Equal(k, "a", three.Group)
	k.load(one) // again
	none, _ = k.take()
	require.Empty(k, none)
	k.replace(k.load(two), []groups.Part{{ID: two.ID, Records: []int{0}}})
	four, _ := k.take()
	require.Equal(k, two.ID, four.ID)
}

// A batch without a job is given again, also while its group is paused or handlers are missing.
func again(k *kit) {
	k.add("a", "1")
	k.control(groups.Flush)
	k.terms.Again = 20 * time.Millisecond
	b, state := k.take()
	require.LessOrEqual(k, state.Next, k.terms.Again)
	k.control(groups.Pause, "a")
	k.sleep(k.terms.Again)
	k.terms.Ahead, k.terms.Again = 0, time.Hour
	next, state := k.take()
	require.Equal(k, b, next)
	require.Greater(k, state.Next, time.Minute)
	k.replace(k.load(next), nil, groups.Result{ID: "1"})
	require.Empty(k, k.load(next))
}

// Records that are sent again are in other batches, which wait for their time.
func parts(k *kit) {
	for i := range 6 {
		k.add("a", strconv.Itoa(i))
	}
	k.control(groups.Flush)
	b, _ := k.next()
	k.replace(b, []groups.Part{{ID: "odd", Records: []int{1, 3}, After: 20 * time.Millisecond, Attempts: 4}, {ID: "now", Records: []int{4, 5}, Losses: 2}},
		groups.Result{ID: "0", Value: []byte("x")}, groups.Result{ID: "2", Value: []byte("y")})
	k.add("b", "6")
	k.control(groups.Flush, "b")
	var got []groups.Batch
	var texts []string
	for len(got) < 3 {
		b, state := k.take()
		if b.ID == "" {
			require.Positive(k, state.Next)
			k.sleep(state.Next)
			continue
		}
		loaded := k.load(b)
		require.Equal(k, b.Losses, loaded.Losses)
		got = append(got, b)
		texts = append(texts, fmt.Sprintf("%s %d%d%d%s", b.ID, loaded.Attempts, b.Losses, len(loaded.Records), loaded.Records[0].Payload))
	}
	require.ElementsMatch(k, []string{"now 0224", got[1].ID + " 0016", "odd 4021"}, texts)
	require.Equal(k, "now", got[0].ID)
	require.Equal(k, 1, got[0].Turn)
	k.none()
}

func order(k *kit) {
	k.add("a", "1")
	k.add("a", "2")
	k.add("a", "3")
	k.add("b", "4")
	k.control(groups.Flush)
	b, _ := k.next()
	k.replace(b, []groups.Part{{ID: "x", Records: []int{0}}, {ID: "y", Records: []int{1}}, {ID: "z", Records: []int{2}}})
	k.add("a", "5")
	k.control(groups.Flush)
	for _, want := range []string{"b: 4", "a: 1", "a: 2", "a: 3", "a: 5"} {
		_, text := k.next()
		require.Equal(k, want, text)
	}
}

// What a process says about a batch counts once, and only in the turn in which it was taken.
func stale(k *kit) {
	k.add("a", "1")
	k.control(groups.Flush)
	b, _ := k.next()
	same := []groups.Part{{ID: b.ID, Records: []int{0}, Attempts: 1}}
	k.replace(b, same)
	require.Empty(k, k.load(b))
	require.ErrorIs(k, k.store.Replace(k.Context(), k.queue, b, nil, done(b), ""), groups.ErrReplaced)
	next, _ := k.next()
	require.Equal(k, groups.Batch{ID: b.ID, Turn: 2, Group: "a", Attempts: 1, Records: b.Records}, next)
	require.ErrorIs(k, k.store.Replace(k.Context(), k.queue, b, nil, done(b), ""), groups.ErrReplaced)
	k.replace(next, nil, done(next)...)
	require.ErrorIs(k, k.store.Replace(k.Context(), k.queue, next, same, nil, ""), groups.ErrReplaced)
	require.Empty(k, k.load(next))
	k.none()
}

func failed(k *kit) {
	for i := range 5 {
		k.add("a", strconv.Itoa(i))
	}
	k.control(groups.Flush)
	b, _ := k.next()
	results := done(b)
	results[1].Err, results[3].Err, results[4].Err = errors.New("e1"), errors.New("e3"), errors.New("e4")
	require.NoError(k, k.store.Replace(k.Context(), k.queue, b, nil, results, "the last one"))
	all, err := k.store.Groups(k.Context(), k.queue, time.Hour, 10)
	require.NoError(k, err)
	require.Equal(k, []any{3, "the last one"}, []any{all[0].Failed, all[0].LastError})
	var got []string
	for from := 0; ; from += 2 {
		some, err := k.store.Failed(k.Context(), k.queue, "a", from, 2)
		require.NoError(k, err)
		if len(some) == 0 {
			break
		}
		for _, f := range some {
			got = append(got, f.ID+string(f.Payload)+f.Err.Error())
			require.WithinRange(k, f.Added, b.Records[0].Added, b.Records[4].Added)
		}
	}
	require.Equal(k, []string{"11e1", "33e3", "44e4"}, got)
	k.none()
	require.Zero(k, k.control(groups.Retry, "b"))
	require.Equal(k, 3, k.control(groups.Retry, "a"))
	require.Zero(k, k.control(groups.Retry, "a"))
	b, text := k.next()
	require.Equal(k, "a: 1 3 4", text)
	require.Zero(k, b.Attempts)
	some, err := k.store.Failed(k.Context(), k.queue, "a", 0, 10)
	require.NoError(k, err)
	require.Empty(k, some)
}

func results(k *kit) {
	for i := range 4 {
		k.add("a", strconv.Itoa(i))
	}
	k.control(groups.Flush)
	b, _ := k.next()
	get := func() map[string]groups.Result {
		k.Helper()
		got, err := k.store.Results(k.Context(), k.queue, []string{"0", "1", "2", "3", "none"})
		require.NoError(k, err)
		require.NotContains(k, got, "none")
		return got
	}
	require.Equal(k, groups.Result{ID: "2", Waits: true}, get()["2"])
	k.replace(b, []groups.Part{{ID: "p", Records: []int{3}, After: time.Hour}}, groups.Result{ID: "0", Value: []byte("")},
		groups.Result{ID: "1", Err: errors.New("no")}, groups.Result{ID: "2", Value: []byte("\x00 two")})
	got := get()
	require.Empty(k, got["0"].Value)
	require.Equal(k, groups.Result{ID: "2", Value: []byte("\x00 two")}, got["2"])
	require.EqualError(k, got["1"].Err, "no")
	require.True(k, got["3"].Waits)
	k.control(groups.Retry, "a")
	require.True(k, get()["1"].Waits, "it is sent again")
	k.control(groups.Delete, "a")
	got = get()
	require.Contains(k, got, "0")
	require.NotContains(k, got, "1")
	require.NotContains(k, got, "3")
}

// A pause keeps records and batches back, not what is in flight, and outlives the records.
func pause(k *kit) {
	k.control(groups.Pause, "a")
	k.add("a", "1")
	k.add("b", "2")
	k.control(groups.Flush)
	_, text := k.next()
	require.Equal(k, "b: 2", text)
	_, state := k.take()
	require.False(k, state.Due)
	require.Zero(k, k.control(groups.Resume, "a"))
	b, text := k.next()
	require.Equal(k, "a: 1", text)
	k.control(groups.Pause, "a")
	require.Len(k, k.load(b).Records, 1)
	k.replace(b, []groups.Part{{ID: "p", Records: []int{0}}})
	k.none()
	k.control(groups.Resume, "a")
	b, text = k.next()
	require.Equal(k, "a: 1", text)
	k.replace(b, nil, done(b)...)
	k.control(groups.Pause, "a")
	all, err := k.store.Groups(k.Context(), k.queue, time.Hour, 10)
	require.NoError(k, err)
	i := slices.IndexFunc(all, func(g groups.Group) bool { return g.Name == "a" })
	require.Equal(k, groups.Group{Name: "a", Paused: true, LastCall: all[i].LastCall}, all[i])
}

// What is in flight stays, with its keys, which others cannot take from it.
func remove(k *kit) {
	k.terms.MaxRecords = 2
	for i := range 6 {
		id := strconv.Itoa(i)
		k.insert(groups.Record{ID: id, Group: "a", Key: id, Payload: []byte(id)}, groups.Rules{MaxPending: 10})
	}
	k.control(groups.Flush)
	flying, _ := k.next()
	b, _ := k.next()
	k.replace(b, []groups.Part{{ID: "p", Records: []int{0}, After: time.Hour}}, groups.Result{ID: "3", Err: errors.New("no")})
	require.Zero(k, k.control(groups.Delete, "none"))
	require.Equal(k, 4, k.control(groups.Delete, "a"))
	require.Equal(k, "5", k.insert(groups.Record{ID: "5", Group: "a", Key: "5"}, groups.Rules{MaxPending: 10}), "its key is free")
	require.Equal(k, 1, k.control(groups.Delete, "a"))
	require.Len(k, k.load(flying).Records, 2)
	_, state := k.take()
	require.Equal(k, groups.State{Next: state.Next, Records: 2}, state)
	k.replace(flying, nil, done(flying)...)
	all, err := k.store.Groups(k.Context(), k.queue, time.Hour, 10)
	require.NoError(k, err)
	require.Empty(k, all)
}

func flushWaiting(k *kit) {
	for i := range 3 {
		k.add("a", strconv.Itoa(i))
	}
	k.control(groups.Flush)
	b, _ := k.next()
	k.replace(b, []groups.Part{{ID: "x", Records: []int{0, 1}, After: time.Hour}, {ID: b.ID, Records: []int{2}, After: math.MaxInt64 / 2}})
	k.none()
	require.Equal(k, 3, k.control(groups.Flush, "a"))
	_, text := k.next()
	require.Equal(k, "a: 0 1", text)
	b, text = k.next()
	require.Equal(k, "a: 2", text)
	require.Equal(k, 2, b.Turn)
}

func list(k *kit) {
	k.terms.MaxRecords = 2
	for i := range 5 {
		k.add("a", strconv.Itoa(i))
	}
	k.add("b", "5")
	k.control(groups.Pause, "c")
	get := func(n int) []groups.Group {
		k.Helper()
		all, err := k.store.Groups(k.Context(), k.queue, time.Hour, n)
		require.NoError(k, err)
		return all
	}
	all := get(10)
	require.Equal(k, []string{"a", "b", "c"}, []string{all[0].Name, all[1].Name, all[2].Name})
	require.Equal(k, all[:2], get(2))
	require.Equal(k, groups.Group{Name: "a", Pending: 5, Oldest: all[0].Oldest, Next: all[0].Oldest.Add(time.Hour)}, all[0])
	require.Equal(k, groups.Group{Name: "c", Paused: true}, all[2])
	k.control(groups.Flush, "a")
	b, _ := k.next()
	k.next()
	require.NoError(k, k.store.Replace(k.Context(), k.queue, b, []groups.Part{{ID: "p", Records: []int{1}, After: time.Hour}},
		[]groups.Result{{ID: "0", Err: errors.New("no")}}, "no"))
	g := get(1)[0]
	require.Equal(k, groups.Group{
		Name: "a", Pending: 2, InFlight: 2, Failed: 1, Oldest: b.Records[1].Added, Next: g.Next, LastCall: g.LastCall, LastError: "no",
	}, g)
	require.WithinRange(k, g.LastCall, g.Oldest, g.Oldest.Add(time.Minute))
	require.False(k, g.Next.After(g.LastCall), "it is due")
}

// Operations with more than what one step does.
func many(k *kit) {
	const n = 2500
	k.terms.MaxRecords = n
	for i := range n {
		k.add(fmt.Sprint("group ", i%600), fmt.Sprint("many ", i))
		k.insert(groups.Record{ID: strconv.Itoa(i), Group: "all", Key: strconv.Itoa(i)}, groups.Rules{MaxPending: 1e6})
	}
	require.Equal(k, n, k.control(groups.Flush, "all"))
	b, _ := k.next()
	require.Len(k, b.Records, n)
	results, ids := done(b), make([]string, n)
	for i, r := range b.Records {
		results[i].Err = errors.New("no")
		ids[i] = r.ID
	}
	k.replace(b, nil, results...)
	got, err := k.store.Results(k.Context(), k.queue, ids)
	require.NoError(k, err)
	require.Len(k, got, n)
	require.Equal(k, n, k.control(groups.Retry, "all"))
	require.Equal(k, n, k.control(groups.Delete, "all"))
	require.Equal(k, n, k.control(groups.Flush))
	all, err := k.store.Groups(k.Context(), k.queue, time.Hour, 10_000)
	require.NoError(k, err)
	require.Len(k, all, 600)
	require.Equal(k, n, k.control(groups.Delete))
}

// An Add that is repeated, since its reply was lost, adds nothing, also if the record was sent meanwhile.
func twice(k *kit) {
	k.add("a", "1")
	k.control(groups.Flush)
	b, _ := k.next()
	k.replace(b, nil, done(b)...)
	require.Equal(k, "1", k.add("a", "1"))
	require.Equal(k, "2", k.add("a", "2"))
	require.Equal(k, "2", k.add("a", "2"))
	require.Equal(k, 1, k.control(groups.Delete, "a"))
}

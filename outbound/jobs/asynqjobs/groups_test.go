package asynqjobs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// inRedis opens a store whose clock does not go by itself.
func inRedis(client redis.UniversalClient) opener {
	return func(t *testing.T, queue string, test func(*testing.T, groups.Store, func(time.Duration))) {
		t.Helper()
		clock := "gresil:groups:{" + queue + "}:clock"
		require.NoError(t, client.Set(t.Context(), clock, begin.UnixMicro(), 0).Err())
		test(t, asynqjobs.ClockedGroups(client), func(d time.Duration) {
			require.NoError(t, client.IncrBy(t.Context(), clock, d.Microseconds()).Err())
		})
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	inRedis(s.client).every(t)
	keys := s.client.Keys(t.Context(), "gresil:groups:*{batch:unique}*").Val()
	require.NotEmpty(t, keys)
	for _, queue := range []string{"batch:delete", "batch:many"} { // nothing is left of groups that are gone
		for _, key := range s.client.Keys(t.Context(), "gresil:groups:{"+queue+"}:[^c]*").Val() {
			require.Positive(t, s.client.PTTL(t.Context(), key).Val(), key)
		}
	}
}

func TestGroupsInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	inRedis(client).every(t)
}

// Engines with different prefixes share no groups.
func TestPrefix(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{Prefix: "shop:1"})
	ours, others := groups.OpenStore(s.engine), groups.OpenStore(core.Must(asynqjobs.New(s.client, asynqjobs.Config{})))
	_, _, err := ours.Add(t.Context(), "batch:x", groups.Record{ID: "1", Group: "a"}, groups.Rules{MaxPending: 9})
	require.NoError(t, err)
	for of, n := range map[groups.Store]int{ours: 1, others: 0} {
		all, err := of.Groups(t.Context(), "batch:x", time.Hour, 9)
		require.NoError(t, err)
		require.Len(t, all, n)
	}
	require.Equal(t, s.client.Keys(t.Context(), "*").Val(), s.client.Keys(t.Context(), "shop:1:groups:{batch:x}:*").Val())
}

// A queue that was quiet is looked at again when SetConfig has made FlushAfter shorter.
func TestGroupsWithShorterFlushAfter(t *testing.T) {
	t.Parallel()
	store := groups.OpenStore(start(t, asynqjobs.Config{}).engine)
	_, _, err := store.Add(t.Context(), "batch:x", groups.Record{ID: "1", Group: "a"}, groups.Rules{MaxPending: 9})
	require.NoError(t, err)
	terms := groups.Terms{ID: "p", FlushAfter: time.Hour, MaxRecords: 9, MaxBytes: 99, Ahead: 1, Again: time.Hour}
	for range 2 { // the second look needs no script
		b, _, err := store.Take(t.Context(), "batch:x", terms)
		require.NoError(t, err)
		require.Empty(t, b.ID)
	}
	terms.FlushAfter = time.Microsecond
	b, _, err := store.Take(t.Context(), "batch:x", terms)
	require.NoError(t, err)
	require.Equal(t, "p", b.ID)
}

// What only a store in Redis does.
func TestGroupsInRedis(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	for name, script := range map[string]string{
		// A Take is repeated if its reply was lost: by go-redis, with the ID of its batch.
		"taken twice": `set max=1 ahead=3; add a 1 2; add b 3; flush; take p = a #1; take repeated = a #1; take repeated = a #1; take q = b #2
			take repeated = b #2; load p = a: 1; replace p x:0:1h; load q = b: 3; replace q 3=; next r = a: 2; replace r 2=; take = -
			state = 1 1h0m0s; flush; take p = a x; delete a = 1; groups = `,
		// A batch without a job is given again, also while its group is paused or handlers are missing.
		"no job": `add a 1; flush; set again=20ms; take p = a #1; state = 1 20ms; pause a; sleep 19ms; take = -; sleep 1ms
			set ahead=0 again=1h; take q = a #1; state = 1 1h0m0s; load p = a: 1; load q = a: 1; replace q 1=; load q = -; state = 0 never`,
		// One that waits for longer than that keeps nobody from taking others.
		"job that waits": `set max=1 ahead=1 again=10ms; add a 1 2 3 4; flush; take p = a #1; take = -; sleep 10ms; take p = a #1; next q = a: 2
			set again=1h; take = a #3; take = -; load p = a: 1; take = -; replace p 1=; replace q 2=; delete a = 2; records = 0; add b 5; flush
			next = b: 5; add b 6 7; flush; take = b #5; take = -`,
		"delete of a job that waits": `set max=1 ahead=1 again=10ms; add a 1 2; flush; take = a #1; sleep 10ms; take = a #1; delete a = 2
			groups = ; add b 3 4; flush; take = b #2; take = -`,
		"lost job": `add a 1; flush; take p = a #1; sleep 30m; load p = a: 1; sleep 59s; load p = a: 1; sleep 59s; take = -; state = 1 1s
			sleep 1s; set ahead=0; take q = a #1; load q = a: 1; replace p 1=; sleep 2m; take = -`,
		// An Add that is repeated, since its reply was lost, changes nothing, also if its record has another content since.
		"added twice with a key": `add a 1/x; add a 2/x = 1; add a 1/x = 1; flush; next p = a: 2; add a 3/x; add a 4/x = 3; add a 5/x = 3
			add a 4/x = 3; add a 1/x = 1; flush; next q = a: 5; add a 4/x = 3; records = 2; replace p 1=; replace q 3=; add a 4/x = 3; add a 1/x = 1
			records = 0`,
		// What waits does so for as long as it would, whatever is done to the clock of the server, within a second.
		"clock that goes back": `add a 1; sleep 10m; add b 2; flush b; next p; replace p p:0:20m; state = 2 20m0s; sleep -5h; state = 2 20m0s
			sleep 19m; take = -; sleep 1m; take p = b p; groups = a:1/0/0,old=-5h0m0s,next=-4h0m0s b:0/1/0,call=-4h30m0s; load p = b: 2
			replace p 2=; sleep -1h; add c 3; sleep 29m; take = -; sleep 1m; next p = a: 1; replace p 1=; sleep 29m; take = -; sleep 1m
			next = c: 3`,
		"clock that goes back a little": `add a 1; sleep 900ms; flush; next p; replace p p:0:0s; sleep -500ms; next = a: 1`,
		"clock that goes forward": `add a 1; sleep 10h; next p = a: 1; replace p p:0:1h; sleep -10h; state = 1 1h0m0s; sleep 59m59s; take = -
			sleep 1s; next = a: 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRedis(s.client).script(t, "batch:"+name, script)
		})
	}
}

// Random operations have the same results in Redis as in memory.
func TestGroupsAsInMemory(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	ctx := t.Context()
	stores := []groups.Store{groups.NewMemory(), groups.OpenStore(s.engine)}
	for seed := range uint64(4) {
		queue := fmt.Sprint("batch:", seed)
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		var taken []groups.Batch
		var ids []string
		same := func(step int, f func(groups.Store) string) {
			if memory, redis := f(stores[0]), f(stores[1]); memory != redis { // require is slow here
				t.Fatalf("seed %d, step %d: %s in memory, %s in Redis", seed, step, memory, redis)
			}
		}
		both := func(step int, f func(groups.Store) (any, error)) {
			same(step, func(s groups.Store) string {
				v, err := f(s)
				return fmt.Sprint(v, errors.Is(err, groups.ErrFull), errors.Is(err, groups.ErrReplaced))
			})
		}
		for step := range 700 {
			group, id := strconv.Itoa(random.IntN(4)), fmt.Sprint("id", step)
			switch op := random.IntN(16); {
			case op < 6:
				key := [...]string{"", "", "k1", "k2"}[random.IntN(4)]
				r := groups.Record{ID: id, Group: group, Key: key, Payload: []byte(strings.Repeat("x", random.IntN(9)))}
				ids = append(ids, id)
				both(step, func(s groups.Store) (any, error) {
					id, due, err := s.Add(ctx, queue, r, groups.Rules{FlushSize: 7, MaxPending: 60})
					return fmt.Sprint(id, due), err
				})
			case op < 9:
				terms := groups.Terms{ID: id, MaxRecords: 1 + random.IntN(5), MaxBytes: 20 * random.IntN(2), FlushAfter: time.Hour, Ahead: 3, Again: time.Hour}
				both(step, func(s groups.Store) (any, error) {
					b, state, err := s.Take(ctx, queue, terms)
					if s == stores[0] && b.ID != "" {
						taken = append(taken, b)
					}
					return fmt.Sprint(b, state.Records), err
				})
			case op < 13 && len(taken) > 0:
				i := random.IntN(len(taken))
				b := taken[i]
				both(step, func(s groups.Store) (any, error) {
					full, err := s.Load(ctx, queue, b.ID, b.Turn)
					if s == stores[0] {
						b = full
					}
					return full, err
				})
				if random.IntN(4) == 0 && b.ID != "" {
					continue // it is loaded again
				}
				taken = slices.Delete(taken, i, i+1)
				parts, results := outcome(random, b, id)
				both(step, func(s groups.Store) (any, error) {
					return nil, s.Replace(ctx, queue, b, parts, results, errors.New("e"+id))
				})
				if random.IntN(8) == 0 {
					both(step, func(s groups.Store) (any, error) { return nil, s.Replace(ctx, queue, b, parts, results, nil) })
				}
			case op == 13:
				verb := [...]groups.Verb{groups.Flush, groups.Flush, groups.Pause, groups.Resume, groups.Resume, groups.Retry, groups.Delete}[random.IntN(7)]
				names := []string{group}[:min(1, random.IntN(4))]
				both(step, func(s groups.Store) (any, error) { return s.Control(ctx, queue, verb, names...) })
			case op == 14:
				both(step, func(s groups.Store) (any, error) {
					all, err := s.Groups(ctx, queue, time.Hour, 10)
					for i, g := range all {
						all[i] = groups.Group{Name: g.Name, Pending: g.Pending, InFlight: g.InFlight, Failed: g.Failed, Paused: g.Paused, LastError: g.LastError}
					}
					return all, err
				})
			default:
				from := random.IntN(len(ids) + 1)
				some := ids[from:min(from+50, len(ids))]
				both(step, func(s groups.Store) (any, error) {
					all, err := s.Results(ctx, queue, some)
					failed, _ := s.Failed(ctx, queue, group, step%3, 3)
					text := fmt.Sprint(len(failed))
					for _, f := range failed {
						text += f.ID + f.Err.Error()
					}
					return fmt.Sprint(all, text), err
				})
			}
		}
	}
}

// outcome returns a random outcome of a batch.
func outcome(random *rand.Rand, b groups.Batch, id string) (parts []groups.Part, results []groups.Result) {
	again := map[int][]int{}
	for i, r := range b.Records {
		switch to := random.IntN(6); to {
		case 0, 1, 2:
			results = append(results, groups.Result{ID: r.ID, Value: []byte(id)})
		case 3:
			results = append(results, groups.Result{ID: r.ID, Err: errors.New("e" + id)})
		default:
			again[to] = append(again[to], i)
		}
	}
	for to, records := range again {
		parts = append(parts, groups.Part{ID: fmt.Sprint(id, to), Records: records, After: time.Hour * time.Duration(to-4), Attempts: to, Losses: len(records)})
	}
	slices.SortFunc(parts, func(a, b groups.Part) int { return strings.Compare(a.ID, b.ID) })
	if len(parts) == 1 && random.IntN(2) == 0 {
		parts[0].ID = b.ID
	}
	return parts, results
}

const poisonRecord = -1

func newBatcher(engine *jobs.Engine, send func(ctx context.Context, option string, records []int) error) *batch.Batcher[int, int] {
	return core.Must(batch.New(batch.Config[int, int]{
		Name: "b", Engine: engine, MaxRecords: 10, Concurrency: 2, FlushAfter: 20 * time.Millisecond,
		Option: func(n int) string { return strconv.Itoa((n + 3) % 3) },
		Send: func(ctx context.Context, option string, records []int) ([]batch.Result[int], error) {
			results := make([]batch.Result[int], len(records))
			for i, n := range records {
				results[i].Value = 2 * n
			}
			return results, send(ctx, option, records)
		},
	}))
}

// batchMain sends records, and prints a line for each call. It notes the call under its key, before its records are sent.
func batchMain(client *redis.Client, engine *jobs.Engine) error {
	b := newBatcher(engine, func(ctx context.Context, option string, records []int) error {
		fmt.Println("call")
		client.RPush(ctx, "calls:"+batch.IdempotencyKey(ctx), fmt.Sprint(option, records))
		time.Sleep(30 * time.Millisecond) // others have begun meanwhile
		if slices.Contains(records, poisonRecord) {
			os.Exit(137)
		}
		for _, n := range records {
			client.HIncrBy(ctx, "sent", strconv.Itoa(n), 1)
		}
		return nil
	})
	return b.Run(context.Background())
}

// Processes that are killed, or that a record ends, lose no record, and no other one fails. A call that is made again has the same
// records under its key.
func TestBatchOverProcesses(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ poison, kills, most int }{
		"poison":           {poison: 1, most: 9}, // 2, one for each half of 10, 5, 3 and 2, and 3
		"kills":            {kills: 7, most: 7},
		"poison and kills": {poison: 1, kills: 2, most: 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			batchOverProcesses(t, 120, row.poison, row.kills, row.most, 1)
		})
	}
}

// batchOverProcesses sends records in calls of 10, two at a time, by one process after the other, and returns the number of calls. The first ones are killed when they have
// begun 1, 2, … calls, up to a number, after which it begins with 1 again.
func batchOverProcesses(t *testing.T, records, poison, kills, most, calls int) (made int) {
	t.Helper()
	s := start(t, asynqjobs.Config{})
	b := newBatcher(s.engine, nil)
	for n := range records {
		if _, err := b.Add(t.Context(), n-poison); err != nil {
			t.Fatal(err)
		}
	}
	deaths := 0
	for over := false; !over; deaths++ {
		require.LessOrEqual(t, deaths, most)
		kill := 0
		if deaths < kills {
			kill = 1 + deaths%calls
		}
		over = batchProcess(t, s, b, kill)
		s.expireOf(t, "batch:b")
	}
	failed := 0
	for option := range 3 {
		for f, err := range b.Failed(t.Context(), strconv.Itoa(option)) {
			require.NoError(t, err)
			require.Equal(t, poisonRecord, f.Record)
			require.ErrorContains(t, f.Err, "5 processes ended, or lost the engine, during the call")
			failed++
		}
	}
	require.Equal(t, poison, failed)
	require.EqualValues(t, records-poison, s.client.HLen(t.Context(), "sent").Val())
	for _, key := range s.client.Keys(t.Context(), "calls:*").Val() {
		same := s.client.LRange(t.Context(), key, 0, -1).Val()
		made += len(same)
		require.Len(t, slices.Compact(same), 1, key)
	}
	t.Logf("%d calls, %d kills", made, kills)
	if poison == 0 { // a kill ends two calls at most; each is made again, and the second time as two
		require.GreaterOrEqual(t, deaths, kills)
		require.LessOrEqual(t, made, (records+9)/10+4*kills)
	}
	return made
}

// batchProcess runs a process until it has ended or all records have. It kills it in the call of a number, or at the end.
func batchProcess(t *testing.T, s setup, b *batch.Batcher[int, int], kill int) (over bool) {
	t.Helper()
	cmd := process(t.Context(), s.server.Addr+" batch")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for n := 1; lines.Scan(); n++ {
			if n == kill {
				_ = cmd.Process.Kill()
			}
		}
		ended <- cmd.Wait()
	}()
	for {
		select {
		case err := <-ended:
			require.Error(t, err)
			return over
		case <-time.After(50 * time.Millisecond):
		}
		soon := redis.ZRangeArgs{Key: "asynq:{batch:b}:retry", Start: "-inf", Stop: time.Now().Unix() + 10, ByScore: true}
		for _, id := range s.client.ZRangeArgs(t.Context(), soon).Val() { // they wait for a second
			require.NoError(t, s.client.ZAddXX(t.Context(), "asynq:{batch:b}:retry", redis.Z{Member: id}).Err())
		}
		all, err := b.Groups(t.Context())
		require.NoError(t, err)
		if !slices.ContainsFunc(all, func(g batch.Group) bool { return g.Pending+g.InFlight > 0 }) {
			over = true
			_ = cmd.Process.Kill()
		}
	}
}

// Two processes share the groups: all records take the smallest number of calls, and a Call gets its result from another process.
func TestBatchOfTwoProcesses(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{Poll: 5 * time.Millisecond})
	adds := newBatcher(s.engine, nil)
	for n := range 300 {
		_, err := adds.Add(t.Context(), n)
		require.NoError(t, err)
	}
	sent := make(chan []int, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 2 {
		engine := core.Must(asynqjobs.New(s.client, asynqjobs.Config{Poll: 5 * time.Millisecond}))
		go func() {
			ended <- newBatcher(engine, func(_ context.Context, _ string, records []int) error { sent <- records; return nil }).Run(ctx)
		}()
	}
	seen := map[int]bool{}
	for calls := 1; len(seen) < 300; calls++ {
		require.LessOrEqual(t, calls, 30)
		for _, n := range <-sent {
			require.False(t, seen[n])
			seen[n] = true
		}
	}
	value, err := adds.Call(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, 2000, value)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}

// Groups whose server is full can still be sent, and their records leave it.
func TestGroupsOutOfMemory(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	store, ctx := groups.OpenStore(s.engine), t.Context()
	rules := groups.Rules{MaxPending: 1e6}
	for i := range 100 {
		_, _, err := store.Add(ctx, "batch:q", groups.Record{ID: strconv.Itoa(i), Payload: make([]byte, 1000)}, rules)
		require.NoError(t, err)
	}
	require.NoError(t, s.client.ConfigSet(ctx, "maxmemory", "1").Err())
	_, _, err := store.Add(ctx, "batch:q", groups.Record{ID: "full"}, rules)
	require.ErrorContains(t, err, "OOM")
	_, err = store.Control(ctx, "batch:q", groups.Flush)
	require.NoError(t, err)
	b, _, err := store.Take(ctx, "batch:q", groups.Terms{ID: "b", MaxRecords: 100, FlushAfter: time.Hour, Ahead: 1, Again: time.Hour})
	require.NoError(t, err)
	b, err = store.Load(ctx, "batch:q", b.ID, b.Turn)
	require.NoError(t, err)
	results := make([]groups.Result, 0, 100)
	for _, r := range b.Records {
		results = append(results, groups.Result{ID: r.ID})
	}
	require.NoError(t, store.Replace(ctx, "batch:q", b, nil, results, nil))
	require.Zero(t, s.client.HLen(ctx, "gresil:groups:{batch:q}:rec").Val())
}

// What a record costs Redis, in µs of its CPU, from Add to its result: 200, 10 and 1 a call.
func BenchmarkGroupsCPU(b *testing.B) {
	for _, size := range []int{200, 10, 1} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			client := redis.NewClient(&redis.Options{Addr: redistest.Start(b).Addr})
			defer func() { _ = client.Close() }()
			store, ctx := groups.OpenStore(core.Must(asynqjobs.New(client, asynqjobs.Config{}))), b.Context()
			cpu := func() time.Duration { return redistest.CPU(b, client.Info(ctx, "cpu").Val()) }
			before := cpu()
			for n := 0; b.Loop(); n++ {
				r := groups.Record{ID: strconv.Itoa(n), Payload: make([]byte, 100)}
				_, due, err := store.Add(ctx, "batch:q", r, groups.Rules{FlushSize: size, MaxPending: 1e9})
				require.NoError(b, err)
				if !due {
					continue
				}
				batch, _, err := store.Take(ctx, "batch:q", groups.Terms{ID: strconv.Itoa(n), MaxRecords: size, FlushAfter: time.Hour, Ahead: 1, Again: time.Hour})
				require.NoError(b, err)
				batch, err = store.Load(ctx, "batch:q", batch.ID, batch.Turn)
				require.NoError(b, err)
				var results []groups.Result
				for _, r := range batch.Records {
					results = append(results, groups.Result{ID: r.ID})
				}
				require.NoError(b, store.Replace(ctx, "batch:q", batch, nil, results, nil))
			}
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "µs-of-redis/op")
		})
	}
}

// Batchers without records to send cost as much as one, however many there are: also those whose records have failed, wait or are paused.
// What another process adds is still seen at once.
func TestIdleGroupsCost(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	sent := make(chan int, 1)
	for i := range 100 {
		b := core.Must(batch.New(batch.Config[int, int]{
			Name: strconv.Itoa(i), Engine: s.engine, FlushSize: 1,
			Send: func(_ context.Context, _ string, records []int) ([]batch.Result[int], error) {
				if records[0] == poisonRecord {
					return nil, core.Permanent(errors.New("no"))
				}
				sent <- records[0]
				return make([]batch.Result[int], len(records)), nil
			},
		}))
		switch i % 4 {
		case 1:
			_, err := b.Add(ctx, poisonRecord)
			require.NoError(t, err)
		case 2:
			require.NoError(t, b.Pause(ctx, ""))
			_, err := b.Add(ctx, 1)
			require.NoError(t, err)
		}
		running.Go(func() { assert.NoError(t, b.Run(ctx)) })
	}
	other := core.Must(batch.New(batch.Config[int, int]{
		Name: "3", Engine: core.Must(asynqjobs.New(s.client, asynqjobs.Config{})), FlushSize: 1,
		Send: func(context.Context, string, []int) ([]batch.Result[int], error) { return nil, nil },
	}))
	eventually(t, func() bool { // all have found that nothing is due
		began, before := time.Now(), s.commands(t)
		time.Sleep(3 * time.Second)
		rate := float64(s.commands(t)-before) / time.Since(began).Seconds()
		t.Logf("%.0f commands a second", rate)
		return rate < 100
	}, "100 commands a second at most")
	_, err := other.Add(ctx, 1)
	require.NoError(t, err)
	eventually(t, func() bool { return len(sent) == 1 }, "the record is sent")
}

// What another process does to a group is seen soon, although nothing was due at the last Take.
func TestGroupsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	mine, other := groups.OpenStore(s.engine), groups.OpenStore(core.Must(asynqjobs.New(s.client, asynqjobs.Config{})))
	terms := groups.Terms{ID: "batch", MaxRecords: 10, FlushAfter: time.Hour, Ahead: 10, Again: time.Hour}
	ctx := t.Context()
	add := func(t *testing.T, queue, id string, size int) {
		t.Helper()
		_, _, err := other.Add(ctx, queue, groups.Record{ID: id, Group: "g"}, groups.Rules{FlushSize: size, MaxPending: 10})
		require.NoError(t, err)
	}
	control := func(t *testing.T, queue string, v groups.Verb) {
		t.Helper()
		_, err := other.Control(ctx, queue, v, "g")
		require.NoError(t, err)
	}
	take := func(t *testing.T, queue string) groups.Batch {
		t.Helper()
		add(t, queue, "1", 1)
		terms := terms
		terms.ID = "taken"
		b, _, err := other.Take(ctx, queue, terms)
		require.NoError(t, err)
		b, err = other.Load(ctx, queue, b.ID, b.Turn)
		require.NoError(t, err)
		require.Len(t, b.Records, 1)
		return b
	}
	for name, prepare := range map[string]func(t *testing.T, queue string) (change func()){
		"first record": func(t *testing.T, queue string) func() {
			t.Helper()
			return func() { add(t, queue, "1", 1) }
		},
		"size": func(t *testing.T, queue string) func() {
			t.Helper()
			add(t, queue, "1", 0)
			return func() { add(t, queue, "2", 2) }
		},
		"flush": func(t *testing.T, queue string) func() {
			t.Helper()
			add(t, queue, "1", 0)
			return func() { control(t, queue, groups.Flush) }
		},
		"resume": func(t *testing.T, queue string) func() {
			t.Helper()
			add(t, queue, "1", 1)
			control(t, queue, groups.Pause)
			return func() { control(t, queue, groups.Resume) }
		},
		"retry": func(t *testing.T, queue string) func() {
			t.Helper()
			require.NoError(t, other.Replace(ctx, queue, take(t, queue), nil, []groups.Result{{ID: "1", Err: errors.New("no")}}, nil))
			return func() { control(t, queue, groups.Retry) }
		},
		"replace": func(t *testing.T, queue string) func() {
			t.Helper()
			b := take(t, queue)
			return func() {
				require.NoError(t, other.Replace(ctx, queue, b, []groups.Part{{ID: "part", Records: []int{0}}}, nil, nil))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := "batch:" + name
			change := prepare(t, queue)
			for range 2 {
				b, _, err := mine.Take(ctx, queue, terms)
				require.NoError(t, err)
				require.Empty(t, b.ID)
			}
			change()
			eventually(t, func() bool {
				b, _, err := mine.Take(ctx, queue, terms)
				return err == nil && b.ID != ""
			}, "the change is seen")
		})
	}
	t.Run("number of records", func(t *testing.T) {
		t.Parallel()
		for n := 1; n < 4; n++ {
			add(t, "batch:records", strconv.Itoa(n), 0)
			eventually(t, func() bool {
				_, state, err := mine.Take(ctx, "batch:records", terms)
				return err == nil && state.Records == n
			}, "the record is counted")
		}
	})
}

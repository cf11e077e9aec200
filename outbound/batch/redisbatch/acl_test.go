package redisbatch

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/batch"
)

// everything uses each operation, and returns the errors of those that fail. block waits for replies.
func everything(u *user, c *clock, block func(ctx context.Context) error) (errs []error) {
	try := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	rec := func(id string, change ...func(*batch.Record)) *batch.Record {
		r := &batch.Record{ID: id, Option: "a", ReplyTo: []batch.Address{{Process: "p", Call: id}}}
		for _, f := range change {
			f(r)
		}
		return r
	}
	add := func(r *batch.Record) {
		_, err := u.Add(u.ctx(), u.method, r, plenty)
		try(err)
	}
	lease := func(id string) batch.Batch {
		b, _, err := u.Lease(u.ctx(), u.method, batch.Terms{ID: id, MaxRecords: 1, FlushAfter: flushAfter, Lease: leaseTime})
		try(err)
		return b
	}
	add(rec("1", untilDone("k")))
	add(rec("2", untilDone("k")))
	add(rec("3"))
	add(&batch.Record{ID: "4", Option: "b"})
	try(u.Pause(u.ctx(), u.method, "a", true, 10))
	try(u.Pause(u.ctx(), u.method, "a", false, 10))
	try(u.Flush(u.ctx(), u.method))
	_, err := u.Ready(u.ctx(), u.method, flushAfter)
	try(err)
	b := lease("b1")
	try(u.Extend(u.ctx(), u.method, b.ID, b.Delivery, leaseTime, false))
	try(u.Settle(u.ctx(), u.method, batch.Settlement{ID: b.ID, Delivery: b.Delivery, Failed: []int{0}, Results: []batch.Outcome{{Error: "no"}}, Error: "no"}))
	lease("b2")
	c.add(2 * time.Minute)
	lease("b3")
	_, err = u.Retry(u.ctx(), u.method, "a")
	try(err)
	_, err = u.Groups(u.ctx(), u.method, 10)
	try(err)
	_, err = u.Receive(u.ctx(), u.method, "p", 0)
	try(err)
	try(block(u.ctx()))
	_, err = u.Delete(u.ctx(), u.method, "a")
	try(err)
	return errs
}

// aclOfTheDocs are the rules of the package documentation, without the one for keys.
func aclOfTheDocs(t *testing.T) (allowed, cluster []string) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var rules []string
	for _, m := range regexp.MustCompile(`(?m)^//\t((?:ACL|\+).*)$`).FindAllSubmatch(doc, -1) {
		rules = append(rules, strings.Fields(string(m[1]))...)
	}
	end := slices.Index(rules, "+cluster|slots")
	require.Equal(t, []string{"ACL", "SETUSER", "batches", "on", ">secret", "~gresil:*"}, rules[:6])
	return rules[6:end], rules[end:]
}

// TestTheACLOfTheDocs: a user with these rules can do all that the store does, and one without any of
// them cannot.
func TestTheACLOfTheDocs(t *testing.T) {
	t.Parallel()
	allowed, _ := aclOfTheDocs(t)
	srv := startServer(t)
	owner := srv.client(t)
	try := func(rules []string) []error {
		_, err := srv.Do(append([]string{"acl", "setuser", "batches", "reset", "on", ">secret", "~gresil:*"}, rules...)...)
		require.NoError(t, err)
		for _, command := range []string{"flushall", "script flush"} {
			_, err = srv.Do(command)
			require.NoError(t, err)
		}
		client := redis.NewClient(&redis.Options{Addr: srv.Addr, Username: "batches", Password: "secret"})
		defer func() { _ = client.Close() }()
		s, clock := newStore(t, client)
		errs := everything(newUser(t, s), clock, func(ctx context.Context) error {
			box := keyPrefix(defaultPrefix, "contacts") + "a:full"
			require.NoError(t, owner.RPush(ctx, box, "+").Err()) // so that it does not wait
			return s.block(ctx, box, time.Second)
		})
		s.clock = nil
		if _, err := s.Ready(t.Context(), "contacts", flushAfter); err != nil {
			errs = append(errs, err)
		}
		return errs
	}
	require.Empty(t, try(allowed))
	for i, rule := range allowed {
		require.NotEmpty(t, try(slices.Delete(slices.Clone(allowed), i, i+1)), "without %s", rule)
	}
}

package redisbatch

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/outbound/batch"
)

//nolint:gochecknoglobals // constants
var (
	readyScript  = newScript("ready")
	leaseScript  = newScript("lease")
	extendScript = newScript("extend")
	settleScript = newScript("settle")
)

var errReply = errors.New("redisbatch: a reply that no script of ours gives")

// Ready reports whether a group is due. See [batch.Store].
func (s *Store) Ready(ctx context.Context, method string, flushAfter time.Duration) (batch.State, error) {
	r, err := s.do(ctx, readyScript, method, 3, micros(flushAfter))
	if err != nil {
		return batch.State{}, err
	}
	return r.state(), nil
}

// Lease takes a batch. See [batch.Store].
func (s *Store) Lease(ctx context.Context, method string, terms batch.Terms) (batch.Batch, batch.State, error) {
	r, err := s.do(ctx, leaseScript, method, 3,
		micros(terms.FlushAfter), terms.ID, terms.MaxRecords, terms.MaxBytes, micros(terms.Lease))
	switch {
	case err != nil:
		return batch.Batch{}, batch.State{}, err
	case len(r) == 3:
		return batch.Batch{}, r.state(), nil
	case len(r) < 13:
		return batch.Batch{}, batch.State{}, errReply
	}
	b := batch.Batch{ID: r.text(3), Option: r.text(4), Delivery: int(r.int(5)), Expired: r.int(11) == 1, Losses: int(r.int(12))}
	attempts := int(r.int(6))
	entries, payloads, keys, addresses := r.list(7), r.list(8), r.list(9), r.list(10)
	b.Records = make([]batch.Record, len(entries))
	for i := range entries {
		rec := &b.Records[i]
		rec.Option, rec.Attempts, rec.Payload = b.Option, attempts, []byte(payloads.at(i))
		if !readEntry(rec, entries.text(i)) || !readKey(rec, keys.at(i)) || !readAddresses(rec, addresses.at(i)) {
			return batch.Batch{}, batch.State{}, errReply
		}
	}
	return b, r.state(), nil
}

// readEntry reads a record as in a list: "ARRIVAL SIZE LENGTH=ID" and the payload, or with ":" and without
// the payload.
func readEntry(rec *batch.Record, entry string) bool {
	arrival, rest, _ := strings.Cut(entry, " ")
	size, rest, _ := strings.Cut(rest, " ")
	at, err1 := strconv.ParseInt(arrival, 10, 64)
	n, err2 := strconv.Atoi(size)
	kind := strings.IndexAny(rest, ":=")
	if err1 != nil || err2 != nil || kind < 0 {
		return false
	}
	length, err := strconv.Atoi(rest[:kind])
	if err != nil || length < 0 || length > len(rest)-kind-1 {
		return false
	}
	end := kind + 1 + length
	rec.Added, rec.Size, rec.ID = timeAt(at), n, rest[kind+1:end]
	if rest[kind] == '=' {
		rec.Payload = []byte(rest[end:])
	}
	return true
}

// readKey reads what there is about a record with a key: two letters, its size, " " and the key.
func readKey(rec *batch.Record, text string) bool {
	if text == "" {
		return true
	}
	size, key, ok := strings.Cut(text[min(2, len(text)):], " ")
	n, err := strconv.Atoi(size)
	rec.UntilDone, rec.Size, rec.Key = text[0] == 'd', n, key
	return ok && err == nil
}

func readAddresses(rec *batch.Record, text string) bool {
	for text != "" {
		var a batch.Address
		var ok bool
		if a.Process, text, ok = cutField(text); !ok {
			return false
		}
		if a.Call, text, ok = cutField(text); !ok {
			return false
		}
		rec.ReplyTo = append(rec.ReplyTo, a)
	}
	return true
}

// cutField reads "LENGTH:TEXT" at the beginning.
func cutField(s string) (field, rest string, ok bool) {
	length, rest, ok := strings.Cut(s, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) {
		return "", "", false
	}
	return rest[:n], rest[n:], true
}

// Extend lets a lease end later. See [batch.Store].
func (s *Store) Extend(ctx context.Context, method, id string, delivery int, lease time.Duration, waiting bool) error {
	return held(s.do(ctx, extendScript, method, 1, id, delivery, micros(lease), flag(waiting)))
}

// Settle replaces a batch by its outcome. See [batch.Store].
func (s *Store) Settle(ctx context.Context, method string, is batch.Settlement) error {
	args := append(s.begin(nil, method), is.ID, is.Delivery, max(0, is.MaxFailed), is.Error)
	places := func(records []int) {
		args = append(args, len(records))
		for _, i := range records {
			args = append(args, i+1)
		}
	}
	places(is.Failed)
	args = append(args, len(is.Parts))
	for _, p := range is.Parts {
		args = append(args, p.ID, micros(p.After), flag(p.Attempt), p.Losses)
		places(p.Records)
	}
	for _, o := range is.Results {
		if o.Error != "" {
			args = append(args, o.Record+1, failed, o.Error)
		} else {
			args = append(args, o.Record+1, succeeded, o.Payload)
		}
	}
	return held(s.run(ctx, settleScript, 1, args))
}

// flag is a bool as an argument of a script.
func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// held returns the error of an operation on a lease.
func held(r reply, err error) error {
	if err == nil && r.int(0) != 1 {
		return batch.ErrLeaseLost
	}
	return err
}

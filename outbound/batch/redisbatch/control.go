package redisbatch

import (
	"context"

	"github.com/gresil/gresil/outbound/batch"
)

//nolint:gochecknoglobals // constants
var (
	flushScript  = newScript("flush")
	pauseScript  = newScript("pause")
	deleteScript = newScript("delete")
	retryScript  = newScript("retry")
	groupsScript = newScript("groups")
)

// slice is the number of groups or records of one step, as in head.lua.
const slice = 500

// Flush marks the records of groups as due. See [batch.Store]. Many groups are flushed in several
// steps.
func (s *Store) Flush(ctx context.Context, method string, options ...string) error {
	if len(options) > 0 {
		for from := 0; from < len(options); from += slice {
			args := []any{"="}
			for _, option := range options[from:min(from+slice, len(options))] {
				args = append(args, option)
			}
			if _, err := s.do(ctx, flushScript, method, 0, args...); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.flushAll(ctx, method, "age", func(string) string { return "age" }); err != nil {
		return err
	}
	return s.flushAll(ctx, method, "-", after)
}

// after is the argument for the options after one.
func after(option string) string { return "(" + option }

func (s *Store) flushAll(ctx context.Context, method, from string, next func(last string) string) error {
	for {
		r, err := s.do(ctx, flushScript, method, 0, from)
		if err != nil || len(r) == 0 {
			return err
		}
		from = next(r.text(0))
	}
}

// Pause pauses a group, or ends that. See [batch.Store].
func (s *Store) Pause(ctx context.Context, method, option string, paused bool, maxGroups int) error {
	r, err := s.do(ctx, pauseScript, method, 1, option, flag(paused), maxGroups)
	if err == nil && r.int(0) != 1 {
		return batch.ErrGroups
	}
	return err
}

// Delete deletes the records of a group that are not leased. See [batch.Store].
func (s *Store) Delete(ctx context.Context, method, option string) (int, error) {
	r, err := s.do(ctx, deleteScript, method, 1, option)
	if err != nil {
		return 0, err
	}
	return int(r.int(0)), nil
}

// Retry moves the failed records of a group to the pending ones. See [batch.Store]. Many records are
// moved in several steps.
func (s *Store) Retry(ctx context.Context, method, option string) (int, error) {
	for n := 0; ; {
		r, err := s.do(ctx, retryScript, method, 2, option)
		if err != nil {
			return n, err
		}
		if n += int(r.int(0)); r.int(1) == 0 {
			return n, nil
		}
	}
}

// Groups returns the state of the groups. See [batch.Store]. Many groups are read in several steps.
func (s *Store) Groups(ctx context.Context, method string, limit int) (batch.Listing, error) {
	var listing batch.Listing
	for from := "-"; ; {
		r, err := s.do(ctx, groupsScript, method, 1, from, limit-len(listing.Groups))
		if err != nil {
			return batch.Listing{}, err
		}
		listing.Calls = int(r.int(0))
		for i := range r[1:] {
			g := r.list(i + 1)
			if len(g) < 14 {
				return batch.Listing{}, errReply
			}
			listing.Groups = append(listing.Groups, readGroup(method, g))
		}
		if n := len(r) - 1; n < slice || len(listing.Groups) >= limit {
			return listing, nil
		}
		from = after(listing.Groups[len(listing.Groups)-1].Option)
	}
}

func readGroup(method string, g reply) batch.GroupInfo {
	return batch.GroupInfo{
		Method: method, Option: g.text(0),
		Pending: int(g.int(1)), Unique: int(g.int(2)), Bytes: g.int(3),
		InFlight: int(g.int(4)), Retrying: int(g.int(5)),
		Failed: int(g.int(6)), Dropped: g.int(7),
		Paused: g.int(8) == 1, Due: g.int(9) == 1,
		Oldest: timeAt(g.int(10)), LastCall: timeAt(g.int(11)),
		LastError: g.text(12), LastErrorAt: timeAt(g.int(13)),
	}
}

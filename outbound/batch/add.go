package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gresil/gresil/internal/validate"
)

// An entry is a record in memory: one allocation for it and its value.
type entry[T any] struct {
	Record
	content T
}

// Add adds a record to the group of its option, and returns its ID. With Unique, it is the ID of the
// record that stands for both. An exempt record is sent at once, and the error is that of its call.
//
// The error is [ErrFull], [ErrGroups], [ErrClosed], the cause of ctx, a [*core.ConfigError] for a
// record larger than MaxBytes, that of encoding the record, or [ErrStore]; then the record may have
// been added nevertheless.
func (b *Batcher[T, R]) Add(ctx context.Context, record T) (id string, err error) {
	set := b.setting()
	if set.exempt(record) {
		id = b.newID()
		_, err := b.sendAlone(ctx, set, id, record)
		return id, err
	}
	return b.add(ctx, set, b.newID(), nil, record)
}

func (b *Batcher[T, R]) add(ctx context.Context, set *setting[T, R], id string, replyTo []Address, record T) (string, error) {
	if err := b.admit(ctx); err != nil {
		return "", err
	}
	e := &entry[T]{content: record}
	e.ID, e.ReplyTo, e.Option = id, replyTo, set.Option(record)
	if set.Unique != Off {
		e.Key, e.UntilDone = set.Key(record), set.Unique == UntilDone
	}
	if err := b.encode(set, e); err != nil {
		b.rejected.Add(1)
		return "", err
	}
	added, err := b.store.Add(ctx, b.method, &e.Record, set.rules)
	if err != nil {
		if errors.Is(err, ErrFull) || errors.Is(err, ErrGroups) {
			b.rejected.Add(1)
		}
		return "", b.refused(ctx, err)
	}
	b.storeWorks(ctx)
	if added.Replaced {
		b.replaced.Add(1)
	} else {
		b.grouped.Inc()
	}
	if added.Due {
		b.poke()
	}
	return added.ID, nil
}

// admit returns the error of a record that cannot be added.
func (b *Batcher[T, R]) admit(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case b.closed.Load() || b.draining.Load():
		b.rejected.Add(1)
		return ErrClosed
	}
	return nil
}

// refused returns an error of the store as one for the caller.
func (b *Batcher[T, R]) refused(ctx context.Context, err error) error {
	if errors.Is(err, ErrFull) || errors.Is(err, ErrGroups) {
		return err
	}
	return b.storeFails(ctx, err)
}

// encode sets the content and size of a record.
func (b *Batcher[T, R]) encode(set *setting[T, R], e *entry[T]) error {
	if b.typed {
		e.value = &e.content
	} else {
		payload, err := json.Marshal(e.content)
		if err != nil {
			return fmt.Errorf("batch: %s: the record cannot be encoded: %w", b.Name(), err)
		}
		e.Payload, e.Size = payload, len(payload)
	}
	if set.Size != nil {
		e.Size = set.Size(e.content)
	}
	if set.MaxBytes > 0 && e.Size > set.MaxBytes {
		return validate.Bad("batch record size", e.Size, fmt.Sprintf("must be at most MaxBytes, %d", set.MaxBytes))
	}
	return nil
}

// decode returns the content of a record of the store.
func (b *Batcher[T, R]) decode(r *Record) (record T, err error) {
	if content, ok := r.value.(*T); ok {
		return *content, nil
	}
	err = guard("UnmarshalJSON", func() error { return json.Unmarshal(r.Payload, &record) })
	if err != nil {
		err = fmt.Errorf("batch: %s: the record cannot be decoded: %w", b.Name(), err)
	}
	return record, err
}

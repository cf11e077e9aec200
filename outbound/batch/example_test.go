package batch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/gate"
)

type Contact struct{ List, Email string }

// merge stands for a method of a vendor that accepts up to 200 contacts of one list, and answers for each of them.
func merge(_ context.Context, list string, contacts []Contact, key string) (ids []string) {
	fmt.Printf("%d contacts of %s, with a key: %t\n", len(contacts), list, key != "")
	for _, c := range contacts {
		id := "INVALID"
		if strings.Contains(c.Email, "@") {
			id = "id of " + c.Email
		}
		ids = append(ids, id)
	}
	return ids
}

// Calls of a method that accepts 30 calls a minute, with up to 200 records each.
func Example() {
	vendor := core.Must(gate.New(gate.Config{Name: "crm", Limits: []gate.Limit{{N: 30, Per: time.Minute}}}))
	contacts, err := batch.New(batch.Config[Contact, string]{
		Name:       "merge_contacts",
		Gate:       vendor,
		Option:     func(c Contact) string { return c.List },
		Key:        func(c Contact) string { return c.Email },
		MaxRecords: 200,
		FlushSize:  3, // for the example: it would take a minute otherwise
		Send: func(ctx context.Context, list string, all []Contact) ([]batch.Result[string], error) {
			results := make([]batch.Result[string], len(all))
			for i, id := range merge(ctx, list, all, batch.IdempotencyKey(ctx)) {
				if results[i].Value = id; id == "INVALID" {
					results[i].Err = core.Permanent(errors.New("no such contact"))
				}
			}
			return results, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = contacts.Run(ctx) }()

	for _, c := range []Contact{{"news", "ada@example.com"}, {"news", "nobody"}, {"news", "ada@example.com"}} {
		if _, err := contacts.Add(ctx, c); err != nil {
			fmt.Println(err)
		}
	}
	id, err := contacts.Call(ctx, Contact{"news", "grace@example.com"})
	fmt.Println(id, err)
	for f, err := range contacts.Failed(ctx, "news") {
		fmt.Println(f.Record.Email, f.Err, err)
	}
	if err := contacts.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 3 contacts of news, with a key: true
	// id of grace@example.com <nil>
	// nobody no such contact <nil>
	// batch: merge_contacts: closed without an Engine: 1 records are lost
}

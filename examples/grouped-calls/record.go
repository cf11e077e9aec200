package main

import (
	"fmt"
	"maps"
	"net/url"
	"strconv"
)

const method = "merge" // of the vendor

// A record is one that the program adds. No two are equal, in all runs.
type record struct {
	Run    string `json:"run"`
	Number int    `json:"number"`
	Email  string `json:"email"`

	option string // of its call
}

// newRecord returns the record n of a run. The options take turns.
func newRecord(run string, n, options int) record {
	return record{Run: run, Number: n, Email: run + "-" + strconv.Itoa(n) + "@example.com", option: optionName(n % options)}
}

// The names of the call options, in the order in which the options have them.
var names = [...]string{"upsert", "insert", "update", "replace"}

// optionName returns the name of an option: the list that the records are for, and the call option.
func optionName(i int) string { return fmt.Sprintf("list-%d:%s", i/len(names)+1, names[i%len(names)]) }

// predefined has the arguments of the method for each call option.
var predefined = map[string]url.Values{
	"upsert":  {"match": {"email"}, "insert_on_no_match": {"true"}, "update_on_match": {"changed"}},
	"insert":  {"match": {"email"}, "insert_on_no_match": {"true"}, "update_on_match": {"none"}},
	"update":  {"match": {"email"}, "insert_on_no_match": {"false"}, "update_on_match": {"changed"}},
	"replace": {"match": {"email"}, "insert_on_no_match": {"true"}, "update_on_match": {"all"}},
}

// catalog returns the arguments of each option, by its name, as a query.
func catalog(options int) map[string]string {
	c := make(map[string]string, options)
	for i := range options {
		query := maps.Clone(predefined[names[i%len(names)]])
		query["method"], query["list"] = []string{method}, []string{fmt.Sprintf("list-%d", i/len(names)+1)}
		c[optionName(i)] = query.Encode()
	}
	return c
}

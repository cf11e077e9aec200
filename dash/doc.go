// Package dash serves a page about everything in a core.Registry: vendors with their holds, queues, groups, limiters,
// breakers and the rest. Whatever needs attention comes first.
//
//	page, err := dash.New(registry, dash.Config{})
//	if err != nil {
//		return err
//	}
//	mux.Handle("/ops/", http.StripPrefix("/ops", adminOnly(page))) // adminOnly is your middleware
//
// The page is plain HTML: it needs no script, and loads nothing from elsewhere. It shows one process, with its program
// and host, and stores nothing. For several processes together, and for history, use package metrics. Groups and queues
// in Redis are the same on the page of each process.
//
// # Who can see it
//
// The page has no authentication: put it behind that of your service. If there is none, listen on a loopback address
// only, and set Config.Hosts: otherwise a web site whose name resolves to the loopback address could read the page in
// the browser of a developer.
//
// Keys of limits and accounts of vendors are left out unless Config.Keys is set. So are the user, password and query of URLs in errors and
// Configs. Payloads are never shown. Options of groups, names of queues, and the IDs of failed jobs are shown.
//
// # Rows
//
// There is a table for each kind of instance. Each instance has a row with those of its figures that are not 0, and the
// fields of its Config that are set. Its parts have rows of their own: a queue, a group, a hold, a breaker of a group
// that is not closed. Rows that need attention come first, and so do the tables that have such rows.
//
// # Controls
//
// With Config.Controls, rows have buttons for what can be done in their present state, such as to pause a queue. Each
// control is a POST of a form or of JSON, which [http.CrossOriginProtection] guards: the page of another origin cannot
// send one. The page asks before it deletes. Config.Logger records each control. A control that has begun ends within
// 30 seconds, even if its client disconnects.
//
// # JSON
//
// The paths are relative to the page:
//
//	GET  ./         the page, or its JSON if the client accepts JSON but no HTML
//	GET  ./state    the JSON
//	POST ./control  a control: {"verb":"pause","kind":"batch","name":"crm","row":"vip"}
//
// The first two have the same query: kind (of a table), q (a text to search), n (rows of each table: 100, at most 500),
// and with a kind also sort (a column, or "-" and a column) and page. If a number cannot be used, the response is 400.
//
// Times are in UTC, and durations, whose names end with _s, in seconds. A value that is not known is null. A row lists
// its verbs, and if there are any, a target. A control can use the target instead of kind, name and row, for example if
// the row is not UTF-8. Errors are problem details (RFC 9457).
//
// # Guarantees
//
//   - At most one goroutine at a time reads an instance, for all viewers; a control reads it anew. An instance that fails, panics or takes
//     longer than 2 seconds is shown with its error, the others with their state. If reading an instance never returns, its goroutine
//     remains.
//   - A response has at most 500 rows of a table, and the number of all. An error has at most 2 kB.
//   - Every text is escaped. A Content-Security-Policy permits no script and no other origin, and the page is not kept in
//     caches.
//   - Without viewers, it costs nothing. All groups and queues are read for each view, so a page with 10,000 groups
//     that refreshes every second is a load on Redis.
package dash

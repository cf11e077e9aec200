// Package dash serves a page about everything in a core.Registry: vendors with their holds, queues, groups, limiters,
// breakers and all others, those that need attention first.
//
//	page, err := dash.New(registry, dash.Config{})
//	if err != nil {
//		return err
//	}
//	mux.Handle("/ops/", http.StripPrefix("/ops", adminOnly(page))) // adminOnly is your middleware
//
// The page is plain HTML: it needs no script, and nothing from outside. It shows one process, by its program and host, and
// stores nothing: for several processes together, and for history, use package metrics. Groups and queues in Redis are
// the same on the page of each process.
//
// # Who can see it
//
// Put it behind the authentication of your service, since it has none. Without one, listen on a loopback address only, and
// set Config.Hosts: a web site whose name resolves to the loopback address could otherwise read the page in the browser of
// a developer.
//
// Keys of limits and accounts of vendors are left out unless Config.Keys is set; so are the query and the user of URLs in
// the texts of errors and in Configs. Payloads are never shown. Options of groups, names of queues, and the IDs of failed
// jobs are shown.
//
// # Rows
//
// There is a table for each kind of instance. Each instance has a row with those of its figures that are not 0, and the
// fields of its Config that are set. Its parts have rows of their own: a queue, a group, a hold, a breaker of a group that
// is not closed. The rows that need attention come first, and the tables that have such rows.
//
// # Controls
//
// With Config.Controls, rows have buttons for what can be done in their present state, such as to pause a queue. Each
// control is a POST of a form or of JSON, which [http.CrossOriginProtection] guards: the page of another origin cannot
// send one. The page asks before it deletes. Config.Logger records each control. A control that has begun ends within 30
// seconds, also if its client disconnects.
//
// # JSON
//
// The paths are relative to the page:
//
//	GET  ./         the page, or its JSON if the client accepts that and no HTML
//	GET  ./state    the JSON
//	POST ./control  a control: {"verb":"pause","kind":"batch","name":"crm","row":"vip"}
//
// The first two have the same query: kind (of a table), q (a text to search), n (rows of each table: 100, at most 500),
// and with a kind also sort (a column, or "-" and a column) and page. A number that cannot be used is an error 400.
//
// Times are in UTC, and durations, whose names end with _s, in seconds. A value that is not known is null. A row lists its
// verbs, and has a target if it has any. A control can name the target instead of kind, name and row, for example if the
// row is not UTF-8. Errors are problem details (RFC 9457).
//
// # Guarantees
//
//   - Each instance is read in a goroutine, of which there is at most one for an instance. All viewers of that moment share
//     its result. An instance that fails, panics or takes longer than 2 seconds is shown with its error, and the others with
//     their state. A reading that never returns keeps its goroutine.
//   - A response has at most 500 rows of a table, and counts the others. An error has at most 2 kB.
//   - Every text is escaped. A Content-Security-Policy permits no script and no other origin, and the page is not kept in
//     caches.
//   - Without viewers, it costs nothing. With viewers, all groups and queues are read for each view, so a page that
//     refreshes every second with 10,000 groups is work for Redis.
package dash

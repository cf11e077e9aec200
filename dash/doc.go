// Package dash serves a page about the services and mechanisms of one process.
//
// It is an [http.Handler] that shows the instances in a [core.Registry]: pending groups of
// outbound/batch, job queues of outbound/jobs, vendors of outbound/dispatch with their cooldowns and
// connections, paces of outbound/pace with their rates and slots, the figures of every other
// mechanism, and a list of the instances without figures:
//
//	registry := &core.Registry{} // in the Config of each
//	page, err := dash.New(registry, dash.Config{})
//	if err != nil {
//		return err
//	}
//	mux.Handle("/ops/dash/", http.StripPrefix("/ops/dash", adminOnly(page)))
//
// The page is plain HTML: it needs no script, and nothing from outside. It has a search, an order
// for each column, pages, and a refresh. Its addresses are relative, so that it works below any
// prefix, which may be cut from the path or not, as with the Mount of chi.
//
// It shows one process, and stores nothing. Groups and queues in Redis are the same in each process.
// For several processes together, and for history, use package metrics.
//
// # Who can see it
//
// The handler has no authentication. Put it behind that of your service: adminOnly above is your
// middleware. Without one, listen on a loopback address only, and set Config.Hosts, since a web site
// whose name resolves to the loopback address could otherwise read the page in the browser of a
// developer.
//
// The keys of pacers and the accounts of dispatchers are left out unless Config.Keys is set; so are the
// query and the user of URLs in the texts of errors. Payloads are never shown. Options of groups,
// names of queues, and the IDs of failed jobs are shown.
//
// # Controls
//
// With Config.Controls, groups and queues can be paused and resumed, groups flushed, failed records
// and jobs retried, and records and failed jobs deleted. Each control is a POST of a form or of JSON,
// which [http.CrossOriginProtection] guards: the page of another origin cannot send one. The page asks
// before it deletes. Config.Allow decides about each control, and Config.Logger records it. A
// control that has begun ends within 30 seconds, also if its client disconnects. Retrying and
// deleting failed jobs applies to at most 1,000 of them at a time.
//
// # JSON
//
// Below the prefix are:
//
//	GET  ./             the page, or its JSON if the client prefers that
//	GET  ./api/state    the JSON
//	POST ./api/control  a control: {"verb":"pause","kind":"batch","name":"crm","option":"vip"}
//
// The first two have the same query: kind (a table), q (a text to search), n (rows of each table, 100,
// at most 500), and with a kind also sort (a column), dir (asc or desc) and page. A value that cannot
// be used is an error 400 that names it.
//
// Times are in UTC, and durations, whose names end with _s, in seconds. A value that is not known is
// null. A number above 2^53-1 is a text. A row with controls lists their verbs, and has a target. A control
// can name the target instead of kind, name and option, for example if the option is not UTF-8.
// Errors are problem details (RFC 9457).
//
// # Guarantees
//
//   - A Handler is safe for concurrent use. It reads each instance in a goroutine, of which there is at
//     most one for an instance. All viewers of that moment share its result.
//   - A page takes at most Config.Timeout. An instance that fails, panics or takes longer is shown with
//     its error, and the others with their state.
//   - A response has at most 500 rows of a table, and counts the others. The default order begins with
//     the rows that need attention. An error has at most 2 kB.
//   - Every text is escaped. A Content-Security-Policy permits no script and no other origin, and the
//     page is not kept in caches.
//   - Without viewers, it costs nothing.
//
// # Failure mode
//
// A snapshot that never returns keeps its goroutine, and its instance is shown with an error from then
// on. A batcher with a Store, and a runner with an Engine, read their whole list of groups or queues
// for each view, so a page that refreshes every second with 10,000 groups is work for Redis.
package dash

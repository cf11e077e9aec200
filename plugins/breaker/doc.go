// Package breaker stops requests to a server, or to a handler, that keeps failing: it is core/breaker for net/http.
//
//	hosts, err := breaker.NewGroup(breaker.Config{Name: "search"})
//	if err != nil {
//		return err
//	}
//	breakers := breaker.NewClient(hosts, breaker.ClientOptions{}) // one for each host
//	httpClient := &http.Client{Transport: client.New(nil, breakers)}
//
// An exchange is judged when the headers of the response have arrived. The error of a rejected request is an [*OpenError], which names the
// host; on a server, a rejected request gets 503 and Retry-After.
//
// It does not limit how many requests are made at once, and does not retry them.
package breaker

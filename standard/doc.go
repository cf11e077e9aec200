// Package standard makes a complete http.Client, and the pipeline of a complete server, from one struct each.
//
//	c, err := standard.NewClient(standard.ClientConfig{Name: "search"})
//	if err != nil {
//		return err
//	}
//	resp, err := c.Get("https://api.example.com/orders")
//
// A request has 30 seconds in all, and as much again after each redirect, unless you set Client.Timeout. It is sent up to 3 times if it can
// be repeated. Each attempt has 10 seconds until the headers of its response, and is rejected while its host keeps failing. If a host asks
// for a pause, nothing is sent to it until the pause is over. For a vendor that limits its callers, set Gate.
//
//	ctx = c.Retry.Override(ctx, func(cfg *retry.Config) { cfg.MaxAttempts = 1 }) // this request only
//
// If you need fewer parts, use packages client and server with some of the plugins.
package standard

// Package demoserver is the service that both demos run: a chi router with
// limited, flaky, slow and unstable routes.
package demoserver

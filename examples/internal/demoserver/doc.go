// Package demoserver is the service that all demos run: a chi router with
// limited, flaky, slow and unstable routes.
package demoserver

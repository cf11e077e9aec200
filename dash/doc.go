// Package dash is the page of a service.
package dash

package client

import (
	"net/http"
	"strings"
)

// Host returns the host of a request, in lower case, and with the port unless that is the one of https, as in "api.example.com" and
// "api.example.com:80". It is the default key of plugins. ok is false for a request without a host.
func Host(req *http.Request) (key string, ok bool) {
	if req.URL == nil || req.URL.Host == "" {
		return "", false
	}
	host := strings.ToLower(req.URL.Host)
	if req.URL.Scheme == "https" {
		return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":"), true
	}
	switch colon := strings.LastIndexByte(host, ':'); {
	case colon < 0 || colon < strings.LastIndexByte(host, ']'):
		return host + ":80", true
	case colon == len(host)-1:
		return host + "80", true
	}
	return host, true
}

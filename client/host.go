package client

import (
	"net/http"
	"strings"
)

// Host returns the host and port that req is sent to, in one spelling: in lower case, and
// with the port unless that is 443 of https, as in "api.example.com" and
// "api.example.com:80". It is the default key of plugins.
func Host(req *http.Request) string {
	if req.URL == nil {
		return ""
	}
	host := req.URL.Host
	for i := range len(host) {
		if c := host[i]; 'A' <= c && c <= 'Z' {
			host = strings.ToLower(host)
			break
		}
	}
	if req.URL.Scheme == "https" {
		return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":")
	}
	switch colon := strings.LastIndexByte(host, ':'); {
	case colon < 0 || colon < strings.LastIndexByte(host, ']'):
		return host + ":80"
	case colon == len(host)-1:
		return host + "80"
	}
	return host
}

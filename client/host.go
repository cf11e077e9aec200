package client

import (
	"net/http"
	"strings"
)

// Host returns the host and port that req is sent to, in one spelling: in lower
// case, the port left out where it is 443 with https and given always else, as in
// "api.example.com" and "api.example.com:80". It is what plugins share their
// state by when they are given no key.
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

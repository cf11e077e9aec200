package server

var IPv4 = ipv4 //nolint:gochecknoglobals // for the tests

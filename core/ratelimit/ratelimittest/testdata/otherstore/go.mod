module example.com/otherstore

go 1.26.0

require github.com/gresil/gresil v0.0.0

replace github.com/gresil/gresil => ../../../../..

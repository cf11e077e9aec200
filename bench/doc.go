// Package bench holds what needs other libraries of the kind: the programs of the
// migration guides, which internal/readmetest compiles in this module. So none of
// those libraries is ever in the go.mod of the product.
package bench

import (
	// What those programs import, for go.mod.
	_ "github.com/afex/hystrix-go/hystrix"
	_ "github.com/failsafe-go/failsafe-go/failsafehttp"
	_ "github.com/go-chi/chi/v5"
	_ "github.com/go-chi/httprate"
	_ "github.com/sony/gobreaker/v2"

	// It imports every plugin.
	_ "github.com/gresil/gresil/client/standard"
)

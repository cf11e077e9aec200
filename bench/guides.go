package bench

import (
	_ "github.com/afex/hystrix-go/hystrix" // Imports of the programs in docs/guide, which internal/readmetest compiles here.
	_ "github.com/failsafe-go/failsafe-go/failsafehttp"
	_ "github.com/go-chi/chi/v5"
	_ "github.com/go-chi/httprate"
	_ "github.com/sony/gobreaker/v2"

	_ "github.com/gresil/gresil/standard" // And what brings in all the plugins.
)

package bench

import (
	_ "github.com/failsafe-go/failsafe-go/failsafehttp" // Imports of the programs in README and docs, which internal/readmetest checks in this module.
	_ "github.com/go-chi/chi/v5"
	_ "github.com/go-chi/httprate"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/sony/gobreaker/v2"

	_ "github.com/gresil/gresil/dash" // what the guides import, for their build
	_ "github.com/gresil/gresil/metrics"
	_ "github.com/gresil/gresil/outbound/batch"
	_ "github.com/gresil/gresil/outbound/jobs/asynqjobs"
	_ "github.com/gresil/gresil/standard"
)

package metrics

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
)

// Config configures a [Collector]. The zero value is ready to use.
type Config struct {
	// Namespace is the first part of all metric names. If empty, it is "resilience".
	Namespace string
	// Durations adds histograms of the durations of calls through breakers, which then read the clock twice for each call.
	Durations bool
	// Hosts adds the label host to the metrics of breakers by host. Set it only if there are few hosts. The shared breaker of a full group has
	// no such label.
	Hosts bool
}

// A Collector exports a registry. It is a prometheus.Collector.
type Collector struct {
	namespace string
	hosts     bool
	registry  *registry.Registry
	build     prometheus.Metric

	mu         sync.Mutex
	rejections map[rejection]uint64
}

// New makes a collector. If the registry is nil, or the Namespace cannot be used, the error is a *core.ConfigError.
func New(reg *core.Registry, cfg Config) (*Collector, error) {
	for i, r := range cfg.Namespace {
		if r == '_' || 'a' <= r|0x20 && r|0x20 <= 'z' || i > 0 && '0' <= r && r <= '9' {
			continue
		}
		return nil, &core.ConfigError{
			Field: "metrics.Config.Namespace", Value: cfg.Namespace,
			Reason: "must be the beginning of a metric name, as in resilience",
		}
	}
	if reg == nil {
		return nil, &core.ConfigError{Field: "metrics.New registry", Value: nil, Reason: "must be the registry of the mechanisms"}
	}
	c := &Collector{
		namespace: cmp.Or(cfg.Namespace, "resilience"), hosts: cfg.Hosts, registry: (*registry.Registry)(reg),
		rejections: map[rejection]uint64{},
	}
	c.build = c.metric("build_info", "Version of the library and of Go.", prometheus.GaugeValue, 1, "version", version(), "goversion",
		runtime.Version())
	if cfg.Durations {
		measure := func(e registry.Entry, _ registry.Change) {
			if e.Source.Time != nil {
				e.Source.Time()
			}
		}
		now, _ := c.registry.Watch(measure)
		for _, e := range now {
			measure(e, registry.Added)
		}
	}
	return c, nil
}

// version returns the version of this module in the program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == "github.com/gresil/gresil" && m.Version != "" {
				return m.Version
			}
		}
	}
	return "(devel)"
}

// Describe sends nothing, since the metrics depend on the registry.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current values.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ch <- c.build
	kinds := map[string]int{}
	for _, e := range c.registry.Entries() {
		kinds[e.Kind]++
		for _, f := range c.figures(e.Source) {
			ch <- c.figure(e.Kind+"_"+f.Name, f, append([]string{"name", e.Name}, f.Labels...))
		}
	}
	for kind, n := range kinds {
		ch <- c.metric("registry_entries", "Instances in the registry, by kind.", prometheus.GaugeValue, float64(n), "kind", kind)
		c.collectReloads(ch, kind)
	}
	c.collectRejections(ch)
}

func (c *Collector) figures(s registry.Source) registry.Figures {
	switch {
	case c.hosts && s.Keys != nil && s.Hosts != nil && s.Hosts():
		return s.Keys("host")
	case s.Figures == nil:
		return nil
	}
	return s.Figures()
}

func (c *Collector) collectReloads(ch chan<- prometheus.Metric, kind string) {
	n := c.registry.Reloads(kind)
	const help = "Configs set on running instances, by kind and result."
	ch <- c.metric("registry_reloads_total", help, prometheus.CounterValue, float64(n.Accepted), "kind", kind, "result", "success")
	ch <- c.metric("registry_reloads_total", help, prometheus.CounterValue, float64(n.Refused), "kind", kind, "result", "failure")
	if !n.Last.IsZero() {
		ch <- c.metric("registry_last_reload_success_timestamp_seconds",
			"Time at which an instance of the kind last accepted a config; no sample before the first.",
			prometheus.GaugeValue, float64(n.Last.UnixMilli())/1000, "kind", kind)
	}
}

func (c *Collector) figure(name string, f registry.Figure, labels []string) prometheus.Metric {
	switch {
	case f.Dist != nil:
		within := make(map[float64]uint64, len(f.Dist.Within))
		for bound, n := range f.Dist.Within {
			within[bound.Seconds()] = n
		}
		desc, values := c.desc(name, f.Help, labels)
		return prometheus.MustNewConstHistogram(desc, f.Dist.Count, f.Dist.Sum.Seconds(), within, values...)
	case strings.HasSuffix(name, "_total"):
		return c.metric(name, f.Help, prometheus.CounterValue, f.N, labels...)
	}
	return c.metric(name, f.Help, prometheus.GaugeValue, f.N, labels...)
}

// metric returns a metric. labels alternates names and values.
func (c *Collector) metric(name, help string, typ prometheus.ValueType, n float64, labels ...string) prometheus.Metric {
	desc, values := c.desc(name, help, labels)
	return prometheus.MustNewConstMetric(desc, typ, n, values...)
}

func (c *Collector) desc(name, help string, labels []string) (desc *prometheus.Desc, values []string) {
	var names []string
	for i := 0; i < len(labels); i += 2 {
		value := labels[i+1]
		if !utf8.ValidString(value) { // such as the host of http://%FF/: package prometheus would panic
			value = strconv.QuoteToASCII(value)
		}
		names, values = append(names, labels[i]), append(values, value)
	}
	return prometheus.NewDesc(c.namespace+"_"+name, help, names, nil), values
}

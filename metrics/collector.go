package metrics

import (
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
)

// DefaultNamespace is what the names of the metrics begin with.
const DefaultNamespace = "resilience"

// Config configures a [Collector]. The zero value is ready to use.
type Config struct {
	// Namespace is what the names of the metrics begin with. If empty,
	// DefaultNamespace. The dashboards and alerts of Gresil expect that.
	Namespace string

	// Durations exports how long the calls through breakers take, as histograms.
	// If false, it does not, and a closed breaker reads no clock: it would read it
	// twice for each call, and take a lock. A breaker with a WindowTime or a
	// Recorded hook of its own reads the clock anyway.
	Durations bool

	// Permits exports how many permits limiters granted and refused, for limits whose
	// calls cost more than 1. If false, it does not, and a limiter calls no hook for a
	// decision: it would copy the key each time.
	Permits bool
}

// Validate reports every field that cannot be used, joined.
func (c Config) Validate() error {
	for i, r := range c.Namespace {
		if r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || i > 0 && '0' <= r && r <= '9' {
			continue
		}
		return &core.ConfigError{Field: "metrics.Config.Namespace", Value: c.Namespace, Reason: "must be the beginning of a metric name, as in " + DefaultNamespace}
	}
	return nil
}

func (c Config) namespace() string {
	if c.Namespace == "" {
		return DefaultNamespace
	}
	return c.Namespace
}

// A Collector exports what is in a registry.
type Collector struct {
	namespace string
	registry  *core.Registry
	entries   *prometheus.Desc
	panics    *prometheus.Desc
	dropped   *prometheus.Desc
	reloads   *prometheus.Desc
	reloaded  *prometheus.Desc
	build     prometheus.Metric
	retry     retryMetrics
	limiter   limiterMetrics
	breaker   breakerMetrics
	timeout   timeoutMetrics
	cooldown  cooldownMetrics
	store     storeMetrics

	rejections rejections
	cancel     func()

	mu       sync.Mutex
	closed   bool
	attached map[entryKey]func()   // takes the hooks of an entry out and its series with them
	configs  map[string]configured // by kind
}

// configured counts the configs that instances of a kind were given.
type configured struct {
	accepted, refused uint64
	last              time.Time // that one was accepted
}

// An entryKey is what an entry is known by: an instance may have two names.
type entryKey struct{ kind, name string }

// New makes a collector for what is in the registry, and for what will be.
func New(registry *core.Registry, cfg Config) (*Collector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if registry == nil {
		return nil, &core.ConfigError{Field: "metrics.New registry", Value: nil, Reason: "must be the registry that the plugins are in"}
	}
	c := &Collector{namespace: cfg.namespace(), registry: registry, attached: map[entryKey]func(){}, configs: map[string]configured{}}
	c.entries = c.desc("registry_entries", "Instances in the registry, by kind.", "kind")
	c.panics = c.desc("hook_panics_total", "Calls of hooks that ended in a panic.", "kind", "name")
	c.dropped = c.desc("events_dropped_total", "Events that others have taken the place of in an event log.", "kind", "name")
	c.reloads = c.desc("registry_reloads_total", "Configs that instances were given while running, by kind and whether they took them.", "kind", "result")
	c.reloaded = c.desc("registry_last_reload_success_timestamp_seconds", "When an instance of the kind last took a config; no sample before.", "kind")
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == "github.com/gresil/gresil" && m.Version != "" {
				version = m.Version
			}
		}
	}
	c.build = prometheus.MustNewConstMetric(c.desc("build_info", "Version of the library and of Go.", "version", "goversion"),
		prometheus.GaugeValue, 1, version, runtime.Version())
	c.retry.init(c)
	c.limiter.init(c, cfg.Permits)
	c.breaker.init(c, cfg.Durations)
	c.timeout.init(c)
	c.cooldown.init(c)
	c.store.init(c)
	c.rejections.init(c)
	// What changes while these are attached waits, and comes after them.
	c.mu.Lock()
	defer c.mu.Unlock()
	now, cancel := registry.Subscribe(c.changed)
	c.cancel = cancel
	for _, e := range now {
		c.attachLocked(e)
	}
	return c, nil
}

// Close takes the collector's hooks out of all instances. It exports nothing new
// from then on. Unregister it first. A second Close does nothing; the error is
// always nil.
func (c *Collector) Close() error {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for key := range c.attached {
		c.detachLocked(key)
	}
	return nil
}

// Describe sends nothing, since what is exported depends on the registry: it is an
// unchecked collector.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends what there is now.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ch <- c.build
	kinds := map[string]int{"breaker": 0, "cooldown": 0, "ratelimit": 0, "ratelimitstore": 0, "retry": 0, "timeout": 0}
	for e := range c.registry.All() {
		kinds[e.Kind]++
		c.collectTags(ch, e)
		var panics uint64
		switch x := exported(e).(type) {
		case *retry.Policy:
			panics = c.retry.collect(ch, e.Name, x)
		case *ratelimit.Limiter:
			panics = c.limiter.collect(ch, e.Name, x)
		case *breaker.Breaker:
			panics = c.breaker.collect(ch, e.Name, x)
		case *breaker.Group:
			panics = c.breaker.collectGroup(ch, e.Name, x)
		case *timeout.Timeout:
			panics = c.timeout.collect(ch, e.Name, x)
		case *cooldown.Cooldown:
			panics = c.cooldown.collect(ch, e.Name, x)
		case limiterStore:
			c.store.collect(ch, e.Name, x)
			continue
		case interface{ Dropped() uint64 }:
			counter(ch, c.dropped, x.Dropped(), e.Kind, e.Name)
			continue
		default:
			continue
		}
		counter(ch, c.panics, panics, e.Kind, e.Name)
	}
	for kind, n := range kinds {
		gauge(ch, c.entries, float64(n), kind)
	}
	counter(ch, c.panics, c.registry.HookPanics(), "registry", "")
	c.collectConfigs(ch)
	c.rejections.collect(ch)
	c.retry.backoff.Collect(ch)
	c.limiter.wait.Collect(ch)
	if c.breaker.duration != nil {
		c.breaker.duration.Collect(ch)
	}
	c.breaker.transitions.Collect(ch)
	if c.limiter.permits != nil {
		c.limiter.permits.Collect(ch)
	}
}

// collectTags exports the tags of an entry as labels of a series of their own, so
// that the other series have the same labels whatever the tags.
func (c *Collector) collectTags(ch chan<- prometheus.Metric, e core.Entry) {
	if len(e.Tags) == 0 {
		return
	}
	labels, values := []string{"kind", "name"}, []string{e.Kind, e.Name}
	for _, tag := range slices.Sorted(maps.Keys(e.Tags)) {
		labels, values = append(labels, tag), append(values, e.Tags[tag])
	}
	gauge(ch, c.desc("registry_entry_info", "Tags of an instance, as labels.", labels...), 1, values...)
}

func (c *Collector) collectConfigs(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	configs := maps.Clone(c.configs)
	c.mu.Unlock()
	for kind, n := range configs {
		counter(ch, c.reloads, n.accepted, kind, "success")
		counter(ch, c.reloads, n.refused, kind, "failure")
		if !n.last.IsZero() {
			gauge(ch, c.reloaded, float64(n.last.UnixMilli())/1000, kind)
		}
	}
}

// changed is told of each change in order, and perhaps after Close.
func (c *Collector) changed(e core.RegistryEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if e.Kind == core.Tagged {
		return // tags are read at each collection
	}
	if e.Kind == core.Reconfigured {
		n := c.configs[e.Entry.Kind]
		if e.Err != nil {
			n.refused++
		} else {
			n.accepted++
			n.last = time.Now()
		}
		c.configs[e.Entry.Kind] = n
		return
	}
	c.detachLocked(entryKey{e.Entry.Kind, e.Entry.Name})
	if e.Kind != core.Removed {
		c.attachLocked(e.Entry)
	}
}

// exported returns the instance of an entry if it is exported, and nil otherwise.
// An instance is exported only under its own kind, since the series of two kinds
// with a name in common would be the same.
func exported(e core.Entry) any {
	own := ""
	switch e.Instance.(type) {
	case *retry.Policy:
		own = "retry"
	case *ratelimit.Limiter:
		own = "ratelimit"
	case *breaker.Breaker, *breaker.Group:
		own = "breaker"
	case *timeout.Timeout:
		own = "timeout"
	case *cooldown.Cooldown:
		own = "cooldown"
	case limiterStore:
		own = "ratelimitstore"
	case interface{ Dropped() uint64 }: // an event.Log, of whatever
		return e.Instance
	}
	if own != e.Kind {
		return nil // somebody else's
	}
	return e.Instance
}

func (c *Collector) attachLocked(e core.Entry) {
	var detach func()
	switch x := exported(e).(type) {
	case *retry.Policy:
		detach = c.retry.attach(e.Name, x)
	case *ratelimit.Limiter:
		detach = c.limiter.attach(e.Name, x)
	case *breaker.Breaker:
		detach = c.breaker.attach(e.Name, x.Observe)
	case *breaker.Group:
		detach = c.breaker.attach(e.Name, x.Observe)
	default:
		return
	}
	c.attached[entryKey{e.Kind, e.Name}] = detach
}

func (c *Collector) detachLocked(key entryKey) {
	if detach := c.attached[key]; detach != nil {
		detach()
		delete(c.attached, key)
	}
}

func (c *Collector) desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(c.namespace+"_"+name, help, labels, nil)
}

// histogram has buckets from 100µs to 30s, and native ones where those are scraped.
func (c *Collector) histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace:                   c.namespace,
		Name:                        name,
		Help:                        help,
		Buckets:                     []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		NativeHistogramBucketFactor: 1.1,
	}, labels)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

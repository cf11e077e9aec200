package metrics

import (
	"cmp"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/hook"
)

// Config configures a [Collector]. The zero value is ready to use.
type Config struct {
	// Namespace is the prefix of all metric names. If empty, it is "resilience".
	Namespace string

	// Durations exports the durations of calls through breakers, as histograms. A
	// closed breaker then reads the clock twice for each call, and takes a lock. If
	// false, it does neither, unless it has a WindowTime, a SlowCall or a Recorded
	// hook of its own.
	Durations bool

	// Permits exports the permits that limiters granted and refused, for calls that
	// cost more than 1. A limiter then calls a hook for each decision, and copies the
	// key. If false, it does neither.
	Permits bool
}

// Validate reports every field that cannot be used, joined.
func (c Config) Validate() error {
	for i, r := range c.Namespace {
		if r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || i > 0 && '0' <= r && r <= '9' {
			continue
		}
		return &core.ConfigError{Field: "metrics.Config.Namespace", Value: c.Namespace, Reason: "must be the beginning of a metric name, as in resilience"}
	}
	return nil
}

// A Collector exports the instances in a registry. Make it with [New].
type Collector struct {
	namespace string
	registry  *core.Registry
	build     prometheus.Metric
	kinds     []kind
	vectors   []vector
	descs     sync.Map // *prometheus.Desc by the name of its metric, for those whose labels do not vary
	cancel    func()
	panics    hook.Panics // of instances that are read

	mu       sync.Mutex
	closed   bool
	attached map[entryKey][]func() // each removes hooks and series of an entry
	configs  map[string]configured // by kind

	rejecting  sync.Mutex // apart from mu, under which instances of the user are looked at
	rejections map[rejection]uint64
}

// configured counts the configs that were set on instances of a kind.
type configured struct {
	accepted, refused uint64
	last              time.Time // of the accepted ones
}

// An entryKey identifies an entry: one instance can have two names.
type entryKey struct{ kind, name string }

// New makes a collector for the instances in the registry, and for those added later. A
// nil registry, and each error of [Config.Validate], is a [*core.ConfigError].
func New(registry *core.Registry, cfg Config) (*Collector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if registry == nil {
		return nil, &core.ConfigError{Field: "metrics.New registry", Value: nil, Reason: "must be the registry that the plugins are in"}
	}
	c := &Collector{
		namespace: cmp.Or(cfg.Namespace, "resilience"), registry: registry,
		attached: map[entryKey][]func(){}, configs: map[string]configured{}, rejections: usual(),
	}
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
	c.kinds = kinds(c, cfg)
	// Changes during this loop wait for the lock, and are applied afterwards.
	c.mu.Lock()
	defer c.mu.Unlock()
	now, cancel := registry.Subscribe(c.changed)
	c.cancel = cancel
	for _, e := range now {
		c.attachLocked(e)
	}
	return c, nil
}

// Close removes the collector's hooks from all instances. Unregister it first: it goes
// on exporting, without new waits, durations and transitions. A second Close does
// nothing; the error is always nil.
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

// Describe sends nothing: the collector is unchecked, because its series depend on the
// registry.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current values.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ch <- c.build
	kinds := map[string]int{}
	for _, k := range c.kinds {
		if k.name != "" {
			kinds[k.name] = 0
		}
	}
	for _, v := range c.vectors {
		v.Collect(ch)
	}
	for e := range c.registry.All() {
		kinds[e.Kind]++
		c.collectTags(ch, e)
		c.collectEntry(ch, e)
	}
	entries := c.desc("registry_entries", "Instances in the registry, by kind.", "kind")
	for kind, n := range kinds {
		gauge(ch, entries, float64(n), kind)
	}
	c.collectPanics(ch, c.registry.HookPanics()+c.panics.Count(), "registry", "")
	c.collectConfigs(ch, kinds)
	c.collectRejections(ch)
}

// collectEntry exports the mechanisms of an entry, and the sum of their panics. An instance of a user
// that panics does not end the scrape.
func (c *Collector) collectEntry(ch chan<- prometheus.Metric, e core.Entry) {
	defer c.panics.Recover()
	var panics uint64
	hooks := false // a mechanism has hooks
	for k, m := range c.mechanisms(e) {
		if _, taken := c.registry.Get(m.Kind, m.Name); taken && m.Kind != e.Kind {
			continue // an entry of its own has these series
		}
		panics += k.collect(&writer{c, ch, m.Name}, m)
		hooks = hooks || k.hooks
	}
	if hooks {
		c.collectPanics(ch, panics, e.Kind, e.Name)
	}
}

func (c *Collector) collectPanics(ch chan<- prometheus.Metric, n uint64, kind, name string) {
	counter(ch, c.desc("hook_panics_total", "Calls of hooks that ended in a panic.", "kind", "name"), n, kind, name)
}

// collectTags exports the tags of an entry as labels of a separate series. The labels of
// the other series do not depend on tags.
func (c *Collector) collectTags(ch chan<- prometheus.Metric, e core.Entry) {
	if len(e.Tags) == 0 {
		return
	}
	labels, values := []string{"kind", "name"}, []string{e.Kind, e.Name}
	for _, tag := range slices.Sorted(maps.Keys(e.Tags)) {
		labels, values = append(labels, tag), append(values, e.Tags[tag])
	}
	gauge(ch, c.newDesc("registry_entry_info", "Tags of an instance, as labels.", labels), 1, values...)
}

// collectConfigs exports zeros too for the kinds without a config so far.
func (c *Collector) collectConfigs(ch chan<- prometheus.Metric, kinds map[string]int) {
	c.mu.Lock()
	configs := maps.Clone(c.configs)
	c.mu.Unlock()
	for kind := range kinds {
		if _, known := configs[kind]; !known {
			configs[kind] = configured{}
		}
	}
	reloads := c.desc("registry_reloads_total", "Configs set on running instances, by kind and result.", "kind", "result")
	reloaded := c.desc("registry_last_reload_success_timestamp_seconds", "Time at which an instance of the kind last accepted a config; no sample before the first.", "kind")
	for kind, n := range configs {
		counter(ch, reloads, n.accepted, kind, "success")
		counter(ch, reloads, n.refused, kind, "failure")
		if !n.last.IsZero() {
			gauge(ch, reloaded, float64(n.last.UnixMilli())/1000, kind)
		}
	}
}

// changed applies a change of the registry. Changes arrive in order, possibly after
// Close.
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

func (c *Collector) attachLocked(e core.Entry) {
	var detach []func()
	for k, m := range c.mechanisms(e) {
		if k.attach != nil {
			detach = append(detach, k.attach(m))
		}
	}
	if len(detach) > 0 {
		c.attached[entryKey{e.Kind, e.Name}] = detach
	}
}

func (c *Collector) detachLocked(key entryKey) {
	for _, detach := range c.attached[key] {
		detach()
	}
	delete(c.attached, key)
}

// desc returns the description of a metric whose labels are always the same.
func (c *Collector) desc(name, help string, labels ...string) *prometheus.Desc {
	d, ok := c.descs.Load(name)
	if !ok {
		d, _ = c.descs.LoadOrStore(name, c.newDesc(name, help, labels))
	}
	return d.(*prometheus.Desc)
}

func (c *Collector) newDesc(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc(c.namespace+"_"+name, help, labels, nil)
}

// histogram has buckets from 100µs to 30s, and native ones where those are scraped.
func (c *Collector) histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace:                   c.namespace,
		Name:                        name,
		Help:                        help,
		Buckets:                     []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		NativeHistogramBucketFactor: 1.1,
	}, labels)
	c.vectors = append(c.vectors, v)
	return v
}

func (c *Collector) counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: c.namespace, Name: name, Help: help}, labels)
	c.vectors = append(c.vectors, v)
	return v
}

package metrics

import "github.com/prometheus/client_golang/prometheus"

// A writer sends the samples of one instance. All of them have its name as a label.
type writer struct {
	c    *Collector
	ch   chan<- prometheus.Metric
	name string
}

// desc returns the description of a metric with these labels besides the name.
func (w *writer) desc(name, help string, labels ...string) *prometheus.Desc {
	return w.c.desc(name, help, append([]string{"name"}, labels...)...)
}

func (w *writer) counter(name, help string, n uint64) { counter(w.ch, w.desc(name, help), n, w.name) }

func (w *writer) gauge(name, help string, v float64) { gauge(w.ch, w.desc(name, help), v, w.name) }

// counters sends a count for each value of a label.
func (w *writer) counters(name, help, label string, counts map[string]uint64) {
	d := w.desc(name, help, label)
	for value, n := range counts {
		counter(w.ch, d, n, w.name, value)
	}
}

// gauges sends a gauge for each value of a label.
func (w *writer) gauges(name, help, label string, values map[string]float64) {
	d := w.desc(name, help, label)
	for value, v := range values {
		gauge(w.ch, d, v, w.name, value)
	}
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// bit returns 1 for true.
func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

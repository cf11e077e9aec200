package timeout

import (
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core/timeout"
)

// settings are the Config of a plugin and the error of its timeout that belongs to
// it. They are never changed.
type settings[C any] struct {
	cfg C
	err *Error
}

// A live plugin has settings that agree with its timeout, which may be given another
// Config by the plugin or alone, as through the registry.
type live[C any] struct {
	timeout *timeout.Timeout
	adopt   func(*C, timeout.Config) // gives a Config what the timeout has, as far as it is different
	mu      sync.Mutex               // held while the two are made to agree
	current atomic.Pointer[settings[C]]
}

// set gives the plugin cfg, and the timeout its part of it.
func (l *live[C]) set(cfg C, part timeout.Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.timeout.SetConfig(part); err != nil {
		return err
	}
	l.agreeLocked(cfg)
	return nil
}

func (l *live[C]) now() *settings[C] {
	if s := l.current.Load(); s.err == l.timeout.Err() {
		return s
	}
	return l.follow()
}

// follow is now where a Config was replaced this moment, or that of the timeout alone.
func (l *live[C]) follow() *settings[C] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.current.Load(); s.err == l.timeout.Err() {
		return s
	}
	return l.agreeLocked(l.current.Load().cfg)
}

// agreeLocked makes settings of cfg and what the timeout has.
func (l *live[C]) agreeLocked(cfg C) *settings[C] {
	s := &settings[C]{cfg: cfg}
	for s.err != l.timeout.Err() { // that may be given another Config meanwhile
		s.err = l.timeout.Err()
		part := l.timeout.Config()
		part.Limit = s.err.Limit
		l.adopt(&s.cfg, part)
	}
	l.current.Store(s)
	return s
}

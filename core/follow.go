package core

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

type follower[C any] struct {
	name string
	set  func(C) error
	undo func() error          // gives back what there was before the last set; nil is to set the old config
	held func(error) *Registry // queues the news of a config that was taken or refused; may be nil
	gone atomic.Bool
}

// FollowConfig gives the config that has a name to the instance that has a name within
// a kind, as [SetConfig] does, and from then on each that takes its place, until cancel
// is called. A shared config has no Name and no Registry of its own: the instances keep
// theirs.
//
// Subscribers of the registry are told when the change is over, and only of what
// held: that an instance has a new config, or that it refused one, for which nobody has
// it. An instance that takes over the name is given the next change; while there is
// none, nothing is done. What is an error of SetConfig, or a config that there is not,
// is one here.
func FollowConfig[C interface{ Validate() error }](c *Configs[C], config string, r *Registry, kind, name string) (cancel func(), err error) {
	has, _ := r.Get(kind, name)
	if _, err := configurable[C](kind, name, has); err != nil {
		return nil, err
	}
	var instance configured[C] // that was given the last config
	f := &follower[C]{name: config}
	f.set = func(cfg C) (err error) {
		has, found := r.Get(kind, name)
		if instance, f.undo = nil, nil; !found {
			return nil
		}
		if instance, err = configurable[C](kind, name, has); err != nil {
			return err
		}
		if known, ok := has.(interface{ Config() C }); ok { // which may not be the shared one
			before := known.Config()
			f.undo = func() error { return known.(configured[C]).SetConfig(before) }
		}
		return instance.SetConfig(cfg)
	}
	f.held = func(err error) *Registry {
		if instance == nil || !r.reconfigured(kind, name, instance, err) {
			return nil
		}
		return r
	}
	return c.follow(f)
}

// Follow calls set with the config that has a name, and from then on with each that
// takes its place, until cancel is called; a call that is under way then may still
// end after it. It is for what is in no registry, as a plugin:
//
//	cancel, err := configs.Follow("payments", retries.SetConfig)
//
// set runs in the goroutine of who changes the config. A config that it refuses is
// not set for anybody: followers that had it already are given the old one again.
// A name without a config, and a first config that set refuses, is an error, and
// nothing is followed.
func (c *Configs[C]) Follow(name string, set func(C) error) (cancel func(), err error) {
	return c.follow(&follower[C]{name: name, set: set})
}

func (c *Configs[C]) follow(f *follower[C]) (cancel func(), err error) {
	c.changing.Lock()
	defer c.end()
	cfg, ok := c.Get(f.name)
	if !ok {
		return nil, unknown("core.Configs.Follow", f.name)
	}
	err = f.set(cfg)
	c.holds(f, err)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followers = append(slices.Clone(c.followers), f)
	return func() {
		f.gone.Store(true)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.followers = slices.DeleteFunc(slices.Clone(c.followers), func(g *follower[C]) bool { return g == f })
	}, nil
}

// end ends a change, and then tells of it: who is told may make another one.
func (c *Configs[C]) end() {
	news := c.news
	c.news = nil
	c.changing.Unlock()
	for _, r := range news {
		r.changes.Drain(r.tell)
	}
}

// holds queues the news that a follower has taken a config, or refused it.
func (c *Configs[C]) holds(f *follower[C], err error) {
	if f.held == nil {
		return
	}
	if r := f.held(err); r != nil {
		c.news = append(c.news, r)
	}
}

// tell gives the followers what is new, or, where one does not take it, what they
// had; also when one panics.
func (c *Configs[C]) tell(concerned []string, resolved map[string]C) (told []*follower[C], err error) {
	c.mu.Lock()
	all := c.followers
	c.mu.Unlock()
	finished := false
	defer func() {
		if finished {
			return
		}
		for _, f := range slices.Backward(told) { // they had that one before
			if again := f.again(c.resolved[f.name]); again != nil {
				err = errors.Join(err, again)
			}
		}
	}()
	for _, f := range all {
		if !slices.Contains(concerned, f.name) || f.gone.Load() {
			continue
		}
		told = append(told, f) // one that panics may have taken it
		if err := f.set(resolved[f.name]); err != nil {
			told = told[:len(told)-1]
			c.holds(f, err)
			return told, err
		}
	}
	finished = true
	return told, nil
}

// again gives back what a follower had.
func (f *follower[C]) again(cfg C) (err error) {
	if f.gone.Load() {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("core: a follower of %q panicked when it was given the old config again: %s", f.name, panicked(v))
		}
	}()
	set := f.undo
	if set == nil {
		set = func() error { return f.set(cfg) }
	}
	if err := set(); err != nil {
		return fmt.Errorf("core: a follower of %q refused the old config: %w", f.name, err)
	}
	return nil
}

// panicked returns what is printed of a panic: the text of an error, or what is plain.
func panicked(v any) string {
	if err, ok := v.(error); ok {
		return err.Error()
	}
	return plain(v)
}

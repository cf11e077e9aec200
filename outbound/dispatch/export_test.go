package dispatch

// HoldAtMost bounds the accounts that can be held at a time.
func (d *Dispatcher[K, C]) HoldAtMost(accounts int) error {
	cfg := d.own.Config()
	cfg.MaxKeys = accounts
	return d.own.SetConfig(cfg)
}

package batch

import "time"

// GroupInfo is the state of one group, for a page. It can be encoded as JSON.
type GroupInfo struct {
	Method string `json:"method"`
	Option string `json:"option"`

	Pending  int       `json:"pending"`  // records that wait for their flush
	Unique   int       `json:"unique"`   // keys that are held
	Bytes    int64     `json:"bytes"`    // sum of the sizes of the pending records
	InFlight int       `json:"inFlight"` // records in batches that are leased
	Retrying int       `json:"retrying"` // records in batches that wait for their time
	Failed   int       `json:"failed"`   // records that are kept for Retry
	Dropped  int64     `json:"dropped"`  // failed records that were removed: MaxFailed
	Paused   bool      `json:"paused"`
	Due      bool      `json:"due"`               // it can be sent, also if it is paused
	Oldest   time.Time `json:"oldest,omitzero"`   // arrival of the oldest pending record
	LastCall time.Time `json:"lastCall,omitzero"` // time of the last lease

	LastError   string    `json:"lastError,omitempty"`
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`

	// NextFlush is set by the batcher: the time at which the group becomes due by age, or the present
	// one if it is due. Stores leave it zero.
	NextFlush time.Time `json:"nextFlush,omitzero"`
}

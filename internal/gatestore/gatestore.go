// Package gatestore holds what outbound/gate shares with its stores. Nobody outside of this module can implement one.
package gatestore

import (
	"context"
	"time"
)

// A Store keeps the state of vendors for all processes.
type Store interface {
	// OpenGate opens the state of the vendor with that name. It sends nothing.
	OpenGate(name string) (Table, error)
}

// A Table is the state of one vendor: one value for the vendor, and one for each key of a limit that is in use. Times are from now, by
// the clock of the store. An attempt has an ID, by which its place and its turns are known; each is leased for 10 seconds.
type Table interface {
	// Pass asks for the places, turns and slots of calls, all or none for each.
	Pass(ctx context.Context, ask Ask) (Grant, error)
	// Report tells of holds first, and then of ends and leases. It returns the holds that are in force then.
	Report(ctx context.Context, report Report) (State, []Hold, error)
	// Resume ends holds, without keys all that there are. Answers to calls from before do not begin them again.
	Resume(ctx context.Context, keys []Key) error
}

// A Key is a key of a limit, or the whole vendor.
type Key struct {
	Vendor     bool   // all calls
	Limit, Key string // of the limit; in it
}

// A Mode is what an Ask is for.
type Mode string

// The modes.
const (
	Pass    Mode = "pass"    // calls that are sent at their slots
	Again   Mode = "again"   // the call with Group.ID, which has passed: it is granted unless a hold has begun, or its lease is over
	Reserve Mode = "reserve" // slots alone, however far ahead
)

// An Ask is what calls need, those that come first before the others.
type Ask struct {
	Process   string
	Mode      Mode
	Groups    []Group
	InFlight  int           // 0: no places
	RoundTrip time.Duration // there is no slot before it
	Ahead     time.Duration // nor one after it
	Late      bool          // calls pass at the rate of the slots, and take theirs by Again
	NoWait    bool          // calls that do not pass do not wait
}

// A Group is calls with the same keys and costs.
type Group struct {
	Calls      int
	Background bool
	Draws      []Draw // the vendor is the first
	ID         uint64 // of the call that asks again
}

// A Draw is the part of a call in one key.
type Draw struct {
	Key

	Spacing    time.Duration // of all permits of the call; 0: no slot
	Unit       time.Duration // of one permit
	Lead       time.Duration // how far ahead of the end of the usage the slot can be
	Generation uint64        // that a call has seen
}

// A State is what is known of a vendor in passing.
type State struct {
	Processes   int // seen lately
	InFlight    int // of all processes
	MaxInFlight int // in force
}

// A Grant is the answer to an Ask.
type Grant struct {
	State

	Answers []Answer // by Group
}

// An Answer has the calls that may be sent, and why the others may not.
type Answer struct {
	Slots []Slot
	Again time.Duration // when there is a slot, or the hold is over; with Poll, when to ask again; 0 if all calls were granted
	Poll  bool          // a place or a turn is missing: nothing tells when there is one
	Draw  int           // the index of the draw that has refused
	Held  bool          // it is held
	Soon  bool          // ask again within half a second: calls of the other class wait for these
	Yield bool          // the same, as these wait for calls of the other class: nothing tells how long
}

// A Slot is the permission for one call.
type Slot struct {
	ID          uint64
	At          time.Duration
	Turn, Probe bool
	Time        uint64   // of the slot, for End
	Generations []uint64 // of the last holds, by Draw
	Marks       []uint64 // the numbers of the slots in their keys, by Draw; 0 if none was taken
}

// A Report is what a process tells.
type Report struct {
	Process string // if empty, it does not count as seen
	Leave   bool   // it is gone
	Holds   []Hold // each as the later of its own end and the one in force
	Ends    []End
	Renew   []uint64 // the places whose leases go on
}

// An End is the end of a place, of the turns of an attempt, or of both, and the return or the settlement of slots.
type End struct {
	Of          Slot      // whose slots with Marks are given back
	Draws       []Draw    // for as many as the Slot has
	Settled     []Settled // instead, what the slots have cost, by Draw; they were counted at Draw.Spacing, with Draw.Unit
	Turn, Place bool
	Success     bool
}

// A Settled is what a slot has cost.
type Settled struct {
	Cost time.Duration
	Most time.Duration // from the slot to the end of the usage, so that no more is charged; 0 is no bound
}

// A Hold is a pause of one key.
type Hold struct {
	Key

	For        time.Duration
	Generation uint64 // of the attempt that was refused
	Halve      bool   // the number of places
	Busy       bool   // halve it alone, at most once a second; nothing is held
}

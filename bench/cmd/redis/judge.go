package main

import (
	"cmp"
	"fmt"
	"slices"
)

const second = 1_000_000 // µs

// An arrival is a call as the observer has it. Times are in µs since 2020.
type arrival struct {
	campaign, call uint32
	granted        int64 // by the clock of the server; 0 if not known
	at             int64 // by that of the observer
}

// A verdict is what the calls of a way came to, in the worst campaign.
type verdict struct {
	Granted        *int `json:"worst_second_server"` // most in a second of the server
	GrantedSliding *int `json:"any_second_server"`   // most in any time of a second
	Arrived        int  `json:"worst_second_observer"`
	ArrivedSliding int  `json:"any_second_observer"`
	InFlight       *int `json:"in_flight_at_border"` // most that were granted in one second and arrived in a later one

	problems []string
}

func (v *verdict) bad(format string, args ...any) {
	if len(v.problems) < 10 {
		v.problems = append(v.problems, fmt.Sprintf(format, args...))
	}
}

// judge holds arrivals to the limit of a way. Each campaign has so many calls, each of which must have
// arrived once.
func judge(w way, arrivals []arrival, calls int) verdict {
	v := verdict{}
	by := make([][]arrival, campaignCount)
	for _, a := range arrivals {
		if a.campaign >= campaignCount {
			v.bad("there is no campaign %d", a.campaign)
			continue
		}
		by[a.campaign] = append(by[a.campaign], a)
	}
	for k, all := range by {
		seen := make([]bool, calls)
		for _, a := range all {
			if int(a.call) >= calls || seen[a.call] {
				v.bad("campaign %d: call %d arrived twice", k, a.call)
				continue
			}
			seen[a.call] = true
		}
		if len(all) != calls {
			v.bad("campaign %d: of %d calls %d arrived", k, calls, len(all))
		}
		v.campaign(w, k, all)
	}
	return v
}

func (v *verdict) campaign(w way, k int, all []arrival) {
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	arrived := perSecond(all, func(a arrival) int64 { return a.at })
	for _, n := range arrived {
		v.Arrived = max(v.Arrived, n)
	}
	v.ArrivedSliding = max(v.ArrivedSliding, sliding(all, func(a arrival) int64 { return a.at }))
	if w.most == 0 {
		return
	}
	late := map[int64]int{} // by the second in which they arrived
	for _, a := range all {
		if a.at < a.granted {
			v.bad("campaign %d: call %d arrived %d µs before its time", k, a.call, a.granted-a.at)
		}
		if a.granted/second < a.at/second {
			late[a.at/second]++
		}
	}
	for s, n := range arrived {
		raise(&v.InFlight, late[s])
		if n > int(w.most)+late[s] {
			v.bad("campaign %d: %d arrived in second %d, with %d on their way when it began", k, n, s, late[s])
		}
	}
	granted := func(a arrival) int64 { return a.granted }
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.granted, b.granted) })
	for s, n := range perSecond(all, granted) {
		raise(&v.Granted, n)
		if n > int(w.most) {
			v.bad("campaign %d: %d were granted in second %d of the server", k, n, s)
		}
	}
	raise(&v.GrantedSliding, sliding(all, granted))
	if w.bucket {
		// A call is a million units, of which a µs brings back limit. Times are rounded up to a µs.
		debt, last := int64(0), int64(0)
		for _, a := range all {
			debt, last = max(0, debt-limit*(a.granted-last))+second, a.granted
			if debt > burst*second+limit {
				v.bad("campaign %d: call %d passes burst + rate·t", k, a.call)
			}
		}
	}
}

func raise(to **int, n int) {
	if *to == nil || **to < n {
		*to = &n
	}
}

func perSecond(all []arrival, at func(arrival) int64) map[int64]int {
	counts := map[int64]int{}
	for _, a := range all {
		counts[at(a)/second]++
	}
	return counts
}

// sliding is the most in any half-open time of a second. The times are in order.
func sliding(all []arrival, at func(arrival) int64) int {
	most, first := 0, 0
	for i, a := range all {
		for at(a)-at(all[first]) >= second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

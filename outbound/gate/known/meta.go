package known

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/gresil/gresil/outbound/gate"
)

// Meta knows the limits "app", "account" and "business". A refusal is an error code, with the status 400: 4 is of the app, 613
// and 17 with the subcode 2446079 of the account, 80000 to 80009 and 80014 of the business. Others name none: 17 of a user, 32 of a page,
// 130429 of a phone number. If a meter is at 100 percent or more, nothing remains, and there is a pause until the time that the
// vendor tells, also after a success. The meters of an app tell no time, so that only its refusals begin a hold. Of several
// businesses and use cases in a response, the longest time counts. Lower meters, and a response without meters, say nothing.
func Meta(resp *http.Response, err error) gate.Signal {
	s := read(resp, err)
	if resp == nil || err != nil {
		return s
	}
	var body struct{ Error map[string]any }
	if resp.StatusCode >= http.StatusBadRequest {
		_ = json.Unmarshal(peek(resp), &body)
	}
	number, _ := body.Error["code"].(float64)
	switch code := int(number); code {
	case 4, 17, 32, 613, 130429:
		s.Limited, s.Reason = true, "code "+strconv.Itoa(code)
		if s.Limit = map[int]string{4: "app", 613: "account"}[code]; code == 17 && body.Error["error_subcode"] == 2446079.0 {
			s.Limit = "account"
		}
	case 80000, 80001, 80002, 80003, 80004, 80005, 80006, 80007, 80008, 80009, 80014:
		s.Limited, s.Limit, s.Reason = true, "business", "code "+strconv.Itoa(code)
	}
	decode := func(name string, usage any) { _ = json.Unmarshal([]byte(resp.Header.Get(name)), usage) }
	quota := func(limit string, used bool, reset float64) { // of a refusal, only the time of its own limit counts
		if !used {
			return
		}
		q := gate.Quota{Limit: limit, Reset: seconds(reset)}
		if s.Quotas = append(s.Quotas, q); q.Reset > s.Pause && (!s.Limited || s.Limit == "" || s.Limit == limit) {
			if s.Pause = q.Reset; !s.Limited {
				s.Limit = limit
			}
		}
	}
	var app, account, insights map[string]float64
	decode("X-App-Usage", &app)
	decode("X-Ad-Account-Usage", &account)
	decode("X-FB-Ads-Insights-Throttle", &insights)
	quota("app", max(app["call_count"], app["total_cputime"], app["total_time"], insights["app_id_util_pct"]) >= 100, 0)
	if account["acc_id_util_pct"] < 100 {
		delete(account, "reset_time_duration") // it is of a meter that is not full
	}
	quota("account", max(account["acc_id_util_pct"], insights["acc_id_util_pct"]) >= 100, account["reset_time_duration"])
	var business map[string][]map[string]float64
	decode("X-Business-Use-Case-Usage", &business)
	percent, minutes := 0.0, 0.0
	for _, cases := range business {
		for _, of := range cases {
			percent = max(percent, of["call_count"], of["total_cputime"], of["total_time"])
			minutes = max(minutes, of["estimated_time_to_regain_access"])
		}
	}
	quota("business", percent >= 100 || minutes > 0, 60*minutes)
	return s
}

// Package known tells what the responses of well-known vendors say about limits. Each function is a Classify of
// gate.Config:
//
//	hub, err := gate.New(gate.Config{
//		Name:     "github",
//		InFlight: 20,
//		Limits: []gate.Limit{
//			{Name: "core", N: 5000, Per: time.Hour, Burst: 100, Key: byUser},
//			{Name: "secondary", N: 900, Per: time.Minute, Key: byUser, Cost: points},
//		},
//		Classify: known.GitHub,
//	})
//
// # What they know
//
// They know formats and meanings, and no numbers: what a vendor permits is in gate.Config.Limits. What a vendor's
// documentation does not say is left to you: write a function that calls the one of this package first, and then looks
// for itself.
//
// Some tell which limit a refusal is about; each function names them. Give your limits these names, or leave them out: a
// refusal by a limit that the Config does not have holds the keys of the call in all of its limits.
//
// A refusal is one of three things. Limited: the key is held until the vendor's own time, or if it gives none, as long as
// gate.Config.Backoff says. Busy: too many calls were in flight, and nothing is held. Permanent: waiting does not help. A
// response that is none of them, such as most vendors' 403 for lack of permission, is returned as it came.
//
// # How they read
//
// Each begins with gate.Classify, so that it also knows Retry-After of a status from 400 on. They read at most 64 KiB of a
// body, which can be read again, and that of a successful response only if it is GraphQL. What is missing or cannot be read
// says nothing. A time in Retry-After or in a body that is too long for a time.Duration means the longest one; a reset in a
// header that gate.Headers reads says nothing then.
//
// # When not to use it
//
// If a vendor only sends a few headers with limits, gate.Headers is enough. If it only sends Retry-After, you need
// nothing.
package known

package model

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Effect is a fault that a write of the controller meets. Faults of reads are in caches.go, and faults of pods are in
// mishaps.go. A controller can also stop between any two of its calls. In a message, the text of an effect precedes
// the name of the write, as in "the controller stops after write 3 of 9".
type Effect string

// The effects.
const (
	// Stop ends the process directly after the write has succeeded.
	Stop Effect = "the controller stops after"
	// Refuse makes the API server fail before the write takes effect.
	Refuse Effect = "the API server fails before"
	// Lose loses the response to a write that takes effect. The cache does not have the write yet.
	Lose Effect = "the API server loses its response to"
	// Postpone gives the controller a timeout. The API server makes the write later, or never.
	Postpone Effect = "the API server times out and delays"
	// TakeOff lets the write take effect, but admission removes a label from the pod that the write creates.
	TakeOff Effect = "admission removes a label from the pod of"
	// Hide lets the write take effect, but the cache does not have the write yet. Only writes of pods can be hidden.
	Hide Effect = "the cache lags after"
)

// Refused returns the answer to a write that fails before it takes effect.
func Refused() Answer {
	return Answer{Err: apierrors.NewServiceUnavailable("the API server is restarting")}
}

// Lost returns the answer that the controller gets if the response to a call is lost.
func Lost(c Call) Answer {
	return Answer{Err: apierrors.NewTimeoutError(c.String()+": the connection was lost", 0)}
}

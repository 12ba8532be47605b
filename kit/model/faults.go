package model

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Effect is what goes wrong with a write of the controller. What goes wrong with its reads is in cache.go, and what
// happens to pods in mishaps.go. A controller also stops between any two of its calls.
type Effect string

// The effects.
const (
	// Stop: the write succeeds, and the process ends right after it.
	Stop Effect = "the controller stops after"
	// Refuse: the API server fails before the write takes effect.
	Refuse Effect = "the API server fails before"
	// Lose: the write takes effect, but the answer is lost and the cache does not have it yet.
	Lose Effect = "the answer is lost of"
	// Postpone: the controller gets a timeout, and the API server carries out the write later, or never.
	Postpone Effect = "the API server is late with"
	// TakeOff: the write takes effect, but admission takes a label off the pod that it creates.
	TakeOff Effect = "admission takes a label off the pod of"
	// Hide: the write takes effect, but the cache does not have it yet. This happens to writes of pods.
	Hide Effect = "the cache lags after"
)

// Refused is the answer to a write that the API server refuses.
func Refused() Answer {
	return Answer{Err: apierrors.NewServiceUnavailable("the API server is restarting")}
}

// Lost is what the controller gets instead of an answer that is lost.
func Lost(c Call) Answer {
	return Answer{Err: apierrors.NewTimeoutError(c.String()+": the connection was lost", 0)}
}

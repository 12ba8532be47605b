// Package model simulates the environment of a job controller: the API server and the caches that follow it,
// kubelets, the scheduler, the scheduler-controller, Kueue, the garbage collector, and the users of the job. The
// package defines the actions of each component, the faults that can occur, and the laws, which are invariants that
// hold under every fault. The packages conformance and explore decide when the actions and faults happen.
//
// The integration tests of the controllers check the model of the API server against a real API server.
package model

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Birth is the time at which every simulation begins.
var Birth = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// JobKey is the namespace and name of the only job in a cluster.
var JobKey = types.NamespacedName{Namespace: "ns", Name: "job"}

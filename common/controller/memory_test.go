package controller

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "ns", Name: "job"}
	var memory Memory
	diff(t, "since when a status waits that is written", time.Time{}, memory.WaitsSince(key))
	memory.SetWaitsSince(key, now)
	diff(t, "since when it waits", now, memory.WaitsSince(key))
	memory.SetWaitsSince(key, time.Time{})
	diff(t, "since when it waits, once it is written", time.Time{}, memory.WaitsSince(key))

	memory.SetWaitsSince(key, now)
	memory.forget(key)
	diff(t, "since when the status of a job waits that is gone", time.Time{}, memory.WaitsSince(key))
}

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
	diff(t, "WaitsSince before a change", time.Time{}, memory.WaitsSince(key))
	memory.SetWaitsSince(key, now)
	diff(t, "WaitsSince after a change", now, memory.WaitsSince(key))
	memory.SetWaitsSince(key, time.Time{})
	diff(t, "WaitsSince after the write", time.Time{}, memory.WaitsSince(key))

	memory.written.add(key, "job-worker-0")
	memory.written.add(key, "job-worker-1")
	diff(t, "written pods", []string{"job-worker-0", "job-worker-1"}, memory.TakeWrites(key))
	diff(t, "written pods after they were taken", []string(nil), memory.TakeWrites(key))

	memory.SetWaitsSince(key, now)
	memory.written.add(key, "job-worker-0")
	memory.forget(key)
	diff(t, "WaitsSince of a deleted job", time.Time{}, memory.WaitsSince(key))
	diff(t, "written pods of a deleted job", []string(nil), memory.TakeWrites(key))
}

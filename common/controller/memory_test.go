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

	memory.noteWrite(key, "job-worker-0")
	memory.noteWrite(key, "job-worker-1")
	diff(t, "pods that were written", []string{"job-worker-0", "job-worker-1"}, memory.TakeWrites(key))
	diff(t, "pods that were written, once they are taken", []string(nil), memory.TakeWrites(key))

	memory.SetWaitsSince(key, now)
	memory.noteWrite(key, "job-worker-0")
	memory.forget(key)
	diff(t, "since when the status of a job waits that is gone", time.Time{}, memory.WaitsSince(key))
	diff(t, "pods that were written of a job that is gone", []string(nil), memory.TakeWrites(key))
}

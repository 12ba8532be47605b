package controller

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"tensorstack.dev/jobs/common/plan"
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
	memory.holdTensorBoard(key, plan.HeldChange{Change: "Create", Until: now})
	diff(t, "what must wait", plan.HeldChange{Change: "Create", Until: now}, memory.heldTensorBoard(key))
	memory.forget(key)
	diff(t, "what must wait of a job that is gone", plan.HeldChange{}, memory.heldTensorBoard(key))
	diff(t, "since when the status of a job waits that is gone", time.Time{}, memory.WaitsSince(key))
}

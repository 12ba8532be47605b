package engine

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "ns", Name: "job"}
	var memory Memory
	diff(t, "when a job was written that never was", time.Time{}, memory.Written(key))
	memory.SetWritten(key, now)
	diff(t, "when it was written", now, memory.Written(key))
	memory.SetWritten(key, time.Time{})
	diff(t, "when it was written, once that is forgotten", time.Time{}, memory.Written(key))

	memory.SetWritten(key, now)
	memory.holdTensorBoard(key, heldChange{"Create", now})
	diff(t, "what must wait", heldChange{"Create", now}, memory.heldTensorBoard(key))
	memory.forget(key)
	diff(t, "what must wait of a job that is gone", heldChange{}, memory.heldTensorBoard(key))
	diff(t, "when a job was written that is gone", time.Time{}, memory.Written(key))
}

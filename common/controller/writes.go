package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writePatience is how long a reconcile waits for the cache to show the writes of the previous reconcile of the job.
const writePatience = time.Second

// awaitWrites waits until the cache shows the controller's own writes to pods of the job. It waits at most for
// writePatience, because the cache never shows a pod that lost its labels. Decisions are correct without the wait.
// The wait only saves repeated requests to the API server. A list with read-your-writes consistency is no
// alternative, because it waits for the writes of all jobs.
func (r *Reconciler[J]) awaitWrites(ctx context.Context, job types.NamespacedName) {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	for _, name := range r.options.Memory.TakeWrites(job) {
		// Get waits until the cache shows the client's own writes of this pod.
		err := r.cluster.Client.Get(ctx, types.NamespacedName{Namespace: job.Namespace, Name: name}, &corev1.Pod{})
		if client.IgnoreNotFound(err) != nil {
			return
		}
	}
}

package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// labelsRead are the labels by which controllers find the job, the attempt, the Workload and the PodGroup of a pod.
var labelsRead = []string{
	batchv1beta1.LabelJobKind, batchv1beta1.LabelJobName, batchv1beta1.LabelAttempt, batchv1beta1.LabelAdmittedBy,
	schedulerv1beta1.LabelGroupName,
}

// refuseChanged deletes a newly created pod if an admission webhook or policy has changed one of labelsRead.
// Otherwise, the controllers would not find the pod, or would assume that it belongs to another attempt. The
// parameter asked contains the labels from the request to create the pod. If refuseChanged deletes the pod, it
// returns a *report.RefusedError, and the job creates no pods until policy.RefusalDelay is over. The message of the
// error contains no pod name and no label value, so that it is the same for each retry.
func (r *Reconciler[J]) refuseChanged(ctx context.Context, job J, asked map[string]string, pod *corev1.Pod) error {
	var changed []string
	for _, label := range labelsRead {
		want, isAsked := asked[label]
		switch got, ok := pod.Labels[label]; {
		case !isAsked || ok && got == want:
		case ok:
			changed = append(changed, label+" has another value")
		default:
			changed = append(changed, label+" is missing")
		}
	}
	if len(changed) == 0 {
		return nil
	}
	retry := r.options.Clock.Now().Add(policy.RefusalDelay(r.refusedFor(job)))
	r.options.Memory.DelayUntil(client.ObjectKeyFromObject(job), retry)
	if _, err := r.releasePod(ctx, pod, client.DisableReadYourWritesConsistency); err != nil {
		return err
	}
	err := r.cluster.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}, client.DisableReadYourWritesConsistency)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s, whose labels admission changed: %w", pod.Name, err)
	}
	return &report.RefusedError{Reason: batchv1beta1.ReasonAdmissionChangedPod, Err: fmt.Errorf(
		"an admission webhook or policy changed labels of a new pod of the job, so the pod was deleted: %s: "+
			"exempt these labels or the namespace from the webhook or policy", strings.Join(changed, ", "))}
}

// delayCreations removes all pod creations from the decision while the delay that refuseChanged has set is not over.
// It returns the remaining delay, or 0 if it removes nothing. Without the delay, the job would create pods in a loop,
// because the creation and the deletion of a changed pod each requeue the job.
func (r *Reconciler[J]) delayCreations(job J, d *plan.Decision) time.Duration {
	delay := r.options.Memory.DelayedUntil(client.ObjectKeyFromObject(job)).Sub(r.options.Clock.Now())
	if len(d.Creates) == 0 || delay <= 0 {
		return 0
	}
	d.Creates = nil
	return delay
}
